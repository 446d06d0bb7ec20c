/*
 * Sums of the reference network's gradients among the ranks of an MPI program on one machine, in
 * turns: Open MPI's all-reduce, shared memory (dist/node_sums.h) and a ring over TCP
 * (dist/ring_sums.h). bench/trainer/elastic builds it.
 *
 *   mpirun -n 2 allreduce [ROUNDS]
 */
#include "base/clock.h"
#include "base/memory.h"
#include "dist/node_sums.h"
#include "dist/ring_sums.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOATS 1663370

static int rank, ranks;
static struct node_sums *node;
static struct ring_sums *ring;

static void fail(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_node(void)
{
	char path[NODE_SUMS_PATH_MAX] = "";
	int fd = rank == 0 ? node_sums_segment(path, node_sums_size(ranks)) : -1;

	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank)
		fd = node_sums_segment_of(path, node_sums_size(ranks));
	if (fd < 0)
		fail("/dev/shm");
	node = node_sums_new(fd, rank, ranks, NULL);
	close(fd);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		unlink(path);
}

static void open_ring(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listening = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), from;
	socklen_t len = sizeof(at);
	uint16_t ports[64];

	if (bind(listening, (void *)&at, len) < 0 || listen(listening, 1) < 0 ||
		getsockname(listening, (void *)&at, &len) < 0)
		fail("listen");
	MPI_Allgather(&at.sin_port, 2, MPI_BYTE, ports, 2, MPI_BYTE, MPI_COMM_WORLD);
	at.sin_port = ports[(rank + 1) % ranks];
	if (connect(to, (void *)&at, len) < 0 || (from = accept(listening, NULL, NULL)) < 0)
		fail("connect");
	fcntl(to, F_SETFL, O_NONBLOCK);
	fcntl(from, F_SETFL, O_NONBLOCK);
	ring = ring_sums_new(to, from, rank, ranks);
}

static void sum_mpi(float *x)
{
	MPI_Allreduce(MPI_IN_PLACE, x, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void sum_node(float *x)
{
	node_sums_add(node, x, FLOATS);
	while (node_sums_advance(node, NULL) == 0)
		sched_yield();
}

static void sum_ring(float *x)
{
	ring_sums_add(ring, x, FLOATS);
	while (ring_sums_advance(ring, NULL) == 0)
		ring_sums_sleep(ring, 1);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double time_of(void (*sum)(float *), float *x)
{
	double t, most;

	for (int i = 0; i < FLOATS; i++)
		x[i] = (float)(i % 7);
	MPI_Barrier(MPI_COMM_WORLD);
	t = mlr_now();
	sum(x);
	t = mlr_now() - t;
	for (int i = 0; i < FLOATS; i++)
		if (x[i] != (float)(i % 7 * ranks))
			fail("a wrong sum");
	MPI_Allreduce(&t, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return most;
}

int main(int argc, char **argv)
{
	static void (*const sums[])(float *) = { sum_mpi, sum_node, sum_ring };
	static const char *const names[] = { "MPI_Allreduce", "shared memory", "ring over TCP" };
	int rounds = argc > 1 ? atoi(argv[1]) : 60;
	double *t = xcalloc(3 * (size_t)rounds, sizeof(*t));
	float *x = xcalloc(FLOATS, sizeof(*x));

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	open_node();
	open_ring();
	for (int i = -3; i < rounds; i++)
		for (int k = 0; k < 3; k++) {
			double took = time_of(sums[k], x);

			if (i >= 0)
				t[k * rounds + i] = took;
		}
	for (int k = 0; k < 3; k++)
		qsort(t + k * rounds, (size_t)rounds, sizeof(*t), by_value);
	for (int k = 0; k < 3 && rank == 0; k++)
		printf("%d ranks, %-13s  median %6.2f ms, quartiles %6.2f %6.2f, %4.2f of MPI's\n",
			ranks, names[k], 1e3 * t[k * rounds + rounds / 2],
			1e3 * t[k * rounds + rounds / 4], 1e3 * t[k * rounds + 3 * rounds / 4],
			t[k * rounds + rounds / 2] / t[rounds / 2]);
	ring_sums_free(&ring);
	node_sums_free(&node);
	MPI_Finalize();
	return 0;
}
