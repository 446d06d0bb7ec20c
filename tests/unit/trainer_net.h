/*
 * Networks in unit tests: chains without saying so in every layer, engines on them, and two ranks
 * in one process.
 */
#ifndef TRAINER_NET_H
#define TRAINER_NET_H

#include "trainer_test.h"

#include "trainer/backend/backend.h"
#include "trainer/model/net.h"

#include <pthread.h>

/* A network in which every layer reads the one before it, and a pool without a stride has its size.
 */
__attribute__((unused)) static struct net *chain_net(
	const char *name, struct shape input, const struct layer *layers, size_t n)
{
	auto_free struct layer *copy = xcalloc(n, sizeof(*copy));
	struct mlr_error err = MLR_ERROR_INIT;
	struct net *net = NULL;

	memcpy(copy, layers, n * sizeof(*copy));
	for (size_t i = 0; i < n; i++) {
		copy[i].from = (int)i - 1;
		if ((copy[i].kind == LAYER_MAXPOOL || copy[i].kind == LAYER_AVGPOOL) &&
			!copy[i].stride)
			copy[i].stride = copy[i].size;
	}
	if (net_new(name, input, copy, n, &net, &err) < 0)
		fail_msg("%s", err.text);
	return net;
}

/* The reference network in C, as TensorFlow's convolutional.py has it: what the description
 * "reference" is held to. */
__attribute__((unused)) static int net_reference(
	struct shape input, int classes, float dropout, struct net **ret, struct mlr_error *err)
{
	struct layer layers[] = {
		{ LAYER_CONV, "conv1", .outputs = 32, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.1f, .bias = 0 },
		{ LAYER_RELU, "relu1" },
		{ LAYER_MAXPOOL, "pool1", .size = 2, .stride = 2 },
		{ LAYER_CONV, "conv2", .outputs = 64, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.1f, .bias = 0.1f },
		{ LAYER_RELU, "relu2" },
		{ LAYER_MAXPOOL, "pool2", .size = 2, .stride = 2 },
		{ LAYER_DENSE, "fc1", .outputs = 512, .sigma = 0.1f, .bias = 0.1f, .decay = 1 },
		{ LAYER_RELU, "relu3" },
		{ LAYER_DROPOUT, "dropout", .rate = dropout },
		{ LAYER_DENSE, "fc2", .outputs = classes, .sigma = 0.1f, .bias = 0.1f, .decay = 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		layers[i].from = (int)i - 1;
	return net_new("convolutional", input, layers, ARRAY_LEN(layers), ret, err);
}

/*
 * Two ranks that are threads of this process: an exchange for each. What ready() was given is
 * summed in wait(), not before, so that an engine which uses it too early is found out.
 */
#define PAIR_PARTS 256

struct pair_rank {
	struct exchange exchange;
	struct pair *pair;
	float *parts[PAIR_PARTS];
	size_t counts[PAIR_PARTS];
	int n;
	double *sum;
	size_t sums;
};

struct pair {
	pthread_barrier_t barrier;
	struct pair_rank rank[2];
};

__attribute__((unused)) static void pair_ready(void *ctx, float *part, size_t count)
{
	struct pair_rank *r = ctx;

	if (r->n == PAIR_PARTS)
		abort();
	r->parts[r->n] = part;
	r->counts[r->n++] = count;
}

__attribute__((unused)) static void pair_poll(void *ctx)
{
	(void)ctx;
}

__attribute__((unused)) static int pair_wait(void *ctx, struct mlr_error *err)
{
	struct pair_rank *r = ctx;
	struct pair *p = r->pair;
	int bad = 0;

	pthread_barrier_wait(&p->barrier);
	if (r->exchange.rank == 0) {
		bad = p->rank[0].n != p->rank[1].n;
		for (int i = 0; !bad && i < r->n; i++) {
			bad = p->rank[0].counts[i] != p->rank[1].counts[i];
			for (size_t k = 0; !bad && k < r->counts[i]; k++) {
				float sum = p->rank[0].parts[i][k] + p->rank[1].parts[i][k];

				p->rank[0].parts[i][k] = p->rank[1].parts[i][k] = sum;
			}
		}
	}
	pthread_barrier_wait(&p->barrier);
	r->n = 0;
	return bad ? mlr_fail(err, EIO, "the ranks gave parts that do not match") : 0;
}

__attribute__((unused)) static int pair_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct pair_rank *r = ctx;
	struct pair *p = r->pair;
	int bad;

	r->sum = x;
	r->sums = n;
	pthread_barrier_wait(&p->barrier);
	bad = p->rank[0].sums != p->rank[1].sums;
	if (r->exchange.rank == 0)
		for (size_t k = 0; !bad && k < n; k++)
			p->rank[0].sum[k] = p->rank[1].sum[k] =
				p->rank[0].sum[k] + p->rank[1].sum[k];
	pthread_barrier_wait(&p->barrier);
	return bad ? mlr_fail(err, EIO, "the ranks sum arrays that do not match") : 0;
}

__attribute__((unused)) static void pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	assert_int_equal(pthread_barrier_init(&p->barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++) {
		p->rank[i].pair = p;
		p->rank[i].exchange = (struct exchange){ .rank = i,
			.ranks = 2,
			.ctx = &p->rank[i],
			.ready = pair_ready,
			.poll = pair_poll,
			.wait = pair_wait,
			.sum = pair_sum,
			.local_rank = i,
			.local_ranks = 2 };
	}
}

__attribute__((unused)) static void pair_close(struct pair *p)
{
	pthread_barrier_destroy(&p->barrier);
}

#endif
