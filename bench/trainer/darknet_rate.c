/*
 * darknet's rate of training the reference network, by its own library and one thread:
 *
 *   darknet_rate BATCH STEPS
 *
 * Made of random images; the loss is darknet's for class labels.
 */
#include <darknet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The library has it, its header has not. */
float train_network_datum(network *net);

static const char layers[] =
	"height=28\nwidth=28\nchannels=1\nlearning_rate=0.001\nmomentum=0.9\ndecay=0.0005\n"
	"policy=constant\nmax_batches=100000\n"
	"[convolutional]\nfilters=32\nsize=5\nstride=1\npad=1\nactivation=relu\n"
	"[maxpool]\nsize=2\nstride=2\npadding=0\n"
	"[convolutional]\nfilters=64\nsize=5\nstride=1\npad=1\nactivation=relu\n"
	"[maxpool]\nsize=2\nstride=2\npadding=0\n"
	"[connected]\noutput=512\nactivation=relu\n"
	"[dropout]\nprobability=.5\n"
	"[connected]\noutput=10\nactivation=linear\n"
	"[softmax]\ngroups=1\n";

/* darknet reads a network from a file alone. */
static network *load(int batch)
{
	char path[] = "/tmp/darknet-rate-XXXXXX";
	int fd = mkstemp(path);
	network *net;

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	dprintf(fd, "[net]\nbatch=%d\nsubdivisions=1\n%s", batch, layers);
	close(fd);
	net = load_network(path, NULL, 0);
	unlink(path);
	return net;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	int batch = argc == 3 ? atoi(argv[1]) : 0, steps = argc == 3 ? atoi(argv[2]) : 0;
	network *net;
	double start;

	if (batch < 1 || steps < 1) {
		fprintf(stderr, "usage: darknet_rate BATCH STEPS\n");
		return 2;
	}
	net = load(batch);
	for (int i = 0; i < batch * net->inputs; i++)
		net->input[i] = (float)rand() / (float)RAND_MAX - .5f;
	memset(net->truth, 0, (size_t)(batch * net->truths) * sizeof(float));
	for (int i = 0; i < batch; i++)
		net->truth[i * net->truths + rand() % net->truths] = 1;
	train_network_datum(net);
	start = now();
	for (int i = 0; i < steps; i++)
		train_network_datum(net);
	printf("%.1f images/s\n", steps * batch / (now() - start));
	return 0;
}
