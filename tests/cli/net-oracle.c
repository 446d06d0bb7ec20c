/*
 * What mltrain's own backend `reference` computes, for tests that compare others with it:
 *
 *   net-oracle make NET CxHxW CLASSES CHECKPOINT   a checkpoint with made-up parameters and
 * statistics net-oracle logits CHECKPOINT IMAGES            the logits of images [n][c][h][w] of
 * bytes, one image a line
 *
 * NET is a description's name or file.
 */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "backend/backend.h"
#include "model/checkpoint.h"
#include "model/net_file.h"
#include "tensor/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Statistics and gains that are like no others, so that none can stand for another. */
static void make_up(const struct net *net, float *params, float *states)
{
	struct rng rng;

	rng_init(&rng, 1, RNG_TEST, 0);
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];

		for (size_t k = 0; k < l->states; k++)
			states[l->state_at + k] =
				(float)(k < l->states / 2 ? rng_uniform(&rng) - 0.5
							  : rng_uniform(&rng) + 0.5);
		for (size_t k = 0; k < l->biases; k++)
			params[l->bias_at + k] = (float)(rng_uniform(&rng) - 0.5);
		for (size_t k = 0; l->kind == LAYER_BATCHNORM && k < l->weights; k++)
			params[l->weight_at + k] = (float)(rng_uniform(&rng) + 0.5);
	}
}

static int make(char **argv, struct mlr_error *err)
{
	struct net_wish wish = { { 3, { 0, 0, 0, 1 } }, atoi(argv[2]), -1, 0 };
	struct checkpoint c = { 0 };
	char backend[] = "reference", data[] = "made-up";
	int r;

	if (sscanf(argv[1], "%dx%dx%d", &wish.input.dim[0], &wish.input.dim[1],
		    &wish.input.dim[2]) != 3)
		return mlr_fail(err, EINVAL, "'%s' is no CxHxW", argv[1]);
	r = net_read(argv[0], &wish, &c.net, NULL, err);
	if (r < 0)
		return r;
	c.params = xcalloc(c.net->params, sizeof(float));
	c.kept[0] = xcalloc(c.net->params, sizeof(float));
	c.states = xcalloc(c.net->states + 1, sizeof(float));
	net_init_params(c.net, 1, c.params);
	make_up(c.net, c.params, c.states);
	for (int k = 0; k < IMAGE_CHANNELS_MAX; k++) {
		c.norm.mean[k] = 127.5f - 10 * (float)k;
		c.norm.scale[k] = 255 - 50 * (float)k;
	}
	c.backend = backend;
	c.data = data;
	c.batch = c.ranks = c.threads = 1;
	c.best_error = -1;
	r = checkpoint_write(argv[3], &c, err);
	free(c.params);
	free(c.kept[0]);
	free(c.states);
	net_free(&c.net);
	return r;
}

static int logits(char **argv, struct mlr_error *err)
{
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	auto_call(engine_close) struct engine *e = NULL;
	auto_free char *images = NULL;
	auto_free float *out = NULL;
	struct engine_config config = { .threads = 1, .use = ENGINE_PREDICTS };
	struct batch batch = { 0 };
	size_t len;
	int r;

	if ((r = checkpoint_read(argv[0], &c, err)) < 0 ||
		(r = file_read(AT_FDCWD, argv[1], 1 << 28, &images, &len, err)) < 0)
		return r;
	config.batch = batch.rows = (int)(len / shape_count(&c.net->input));
	config.norm = c.norm;
	batch.images = (const uint8_t *)images;
	out = xcalloc((size_t)batch.rows * (size_t)c.net->classes, sizeof(float));
	if ((r = backend_reference.open(c.net->layers, c.net->n, &config, &e, err)) < 0 ||
		(r = engine_set(e, ENGINE_PARAMS, c.params, err)) < 0 ||
		(c.net->states && (r = engine_set(e, ENGINE_STATES, c.states, err)) < 0) ||
		(r = engine_predict(e, &batch, out, err)) < 0)
		return r;
	for (int i = 0; i < batch.rows * c.net->classes; i++)
		printf("%.9g%c", (double)out[i], (i + 1) % c.net->classes ? ' ' : '\n');
	return 0;
}

int main(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = -1;

	if (argc == 6 && strcmp(argv[1], "make") == 0)
		r = make(argv + 2, &err);
	else if (argc == 4 && strcmp(argv[1], "logits") == 0)
		r = logits(argv + 2, &err);
	else
		mlr_fail(&err, EINVAL, "usage: see the head of net-oracle.c");
	if (r < 0)
		fprintf(stderr, "net-oracle: %s\n", err.text);
	return r < 0;
}
