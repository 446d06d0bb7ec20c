/*
 * Networks in unit tests: chains without saying so in every layer, those that several backends are
 * tried on, engines on them, and two ranks in one process.
 */
#ifndef TRAINER_NET_H
#define TRAINER_NET_H

#include "trainer_test.h"

#include "backend/backend.h"
#include "model/net.h"

#include <pthread.h>

/* A network of layers that say what they read. */
__attribute__((unused)) static struct net *made_net(
	const char *name, struct shape input, const struct layer *layers, size_t n)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct net *net = NULL;

	if (net_new(name, input, layers, n, &net, &err) < 0)
		fail_msg("%s", err.text);
	return net;
}

/* A network in which every layer reads the one before it, and a pool without a stride has its
 * size. */
__attribute__((unused)) static struct net *chain_net(
	const char *name, struct shape input, const struct layer *layers, size_t n)
{
	auto_free struct layer *copy = xcalloc(n, sizeof(*copy));

	memcpy(copy, layers, n * sizeof(*copy));
	for (size_t i = 0; i < n; i++) {
		copy[i].from = (int)i - 1;
		if ((copy[i].kind == LAYER_MAXPOOL || copy[i].kind == LAYER_AVGPOOL) &&
			!copy[i].stride)
			copy[i].stride = copy[i].size;
	}
	return made_net(name, input, copy, n);
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

/* Layers of the reference network at sizes that finite differences can afford. */
__attribute__((unused)) static struct net *small_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "conv1", .outputs = 3, .size = 3, .stride = 1, .pad = 1,
			.sigma = 0.4f, .bias = 0.1f },
		{ LAYER_RELU, "relu1" },
		{ LAYER_MAXPOOL, "pool1", .size = 2 },
		{ LAYER_CONV, "conv2", .outputs = 4, .size = 3, .stride = 1, .pad = 1,
			.sigma = 0.4f, .bias = 0.1f },
		{ LAYER_RELU, "relu2" },
		{ LAYER_DENSE, "fc1", .outputs = 6, .sigma = 0.3f, .bias = 0.1f, .decay = 1 },
		{ LAYER_DROPOUT, "dropout", .rate = 0.5f },
		{ LAYER_DENSE, "fc2", .outputs = 4, .sigma = 0.5f },
	};

	return chain_net("small", shape3(2, 4, 4), layers, ARRAY_LEN(layers));
}

/* Sizes that fit no vector, a stride, rests at the edges, every kind of layer in unusual places. */
__attribute__((unused)) static struct net *odd_net(void)
{
	const struct layer layers[] = {
		{ LAYER_RELU, "in" },
		{ LAYER_CONV, "a", .outputs = 7, .size = 3, .stride = 1, .pad = 1, .sigma = 0.4f,
			.bias = 0.1f },
		{ LAYER_MAXPOOL, "pool_a", .size = 2 },
		{ LAYER_DROPOUT, "drop_a", .rate = 0.25f },
		{ LAYER_CONV, "b", .outputs = 18, .size = 5, .stride = 2, .pad = 2, .sigma = 0.2f },
		{ LAYER_RELU, "relu_b" },
		{ LAYER_CONV, "c", .outputs = 20, .size = 3, .stride = 1, .pad = 0, .sigma = 0.2f,
			.decay = 1 },
		{ LAYER_RELU, "relu_c" },
		{ LAYER_RELU, "again" },
		{ LAYER_DENSE, "d", .outputs = 33, .sigma = 0.2f, .bias = 0.1f, .decay = 1 },
		{ LAYER_DROPOUT, "drop_d", .rate = 0.5f },
		{ LAYER_RELU, "relu_d" },
		{ LAYER_DENSE, "e", .outputs = 5, .sigma = 0.3f },
	};

	return chain_net("odd", shape3(3, 19, 21), layers, ARRAY_LEN(layers));
}

/* A residual block with a projection, batch norm on images and rows, every pool, outputs that
 * several layers read, the images added to themselves. */
__attribute__((unused)) static struct net *small_residual_net(void)
{
	enum {
		TWICE,
		CONV1,
		BN1,
		RELU1,
		CONV2,
		BN2,
		SHORT,
		SUM,
		RELU2,
		AVG,
		MAX,
		SUM2,
		GLOBAL,
		FC1,
		BN3,
		DROP,
		FC2
	};
	const struct layer layers[] = {
		[TWICE] = { LAYER_ADD, "twice", LAYER_INPUT, LAYER_INPUT },
		[CONV1] = { LAYER_CONV, "conv1", TWICE, .outputs = 3, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN1] = { LAYER_BATCHNORM, "bn1", CONV1, .epsilon = 1e-3f, .momentum = 0.1f },
		[RELU1] = { LAYER_RELU, "relu1", BN1 },
		[CONV2] = { LAYER_CONV, "conv2", RELU1, .outputs = 8, .size = 3, .stride = 2,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN2] = { LAYER_BATCHNORM, "bn2", CONV2, .epsilon = 1e-3f, .momentum = 0.1f },
		[SHORT] = { LAYER_CONV, "short", RELU1, .outputs = 8, .size = 1, .stride = 2,
			.sigma = 0.4f, .bias = 0.1f },
		[SUM] = { LAYER_ADD, "sum", BN2, SHORT },
		[RELU2] = { LAYER_RELU, "relu2", SUM },
		[AVG] = { LAYER_AVGPOOL, "avg", RELU2, .size = 2, .stride = 1 },
		[MAX] = { LAYER_MAXPOOL, "max", RELU2, .size = 2, .stride = 1 },
		[SUM2] = { LAYER_ADD, "sum2", AVG, MAX },
		[GLOBAL] = { LAYER_GLOBALPOOL, "global", SUM2 },
		[FC1] = { LAYER_DENSE, "fc1", GLOBAL, .outputs = 7, .sigma = 0.5f, .decay = 0.5f },
		[BN3] = { LAYER_BATCHNORM, "bn3", FC1, .epsilon = 1e-3f, .momentum = 0.2f },
		[DROP] = { LAYER_DROPOUT, "drop", BN3, .rate = 0.25f },
		[FC2] = { LAYER_DENSE, "fc2", DROP, .outputs = 4, .sigma = 0.5f },
	};

	return made_net("residual", shape3(2, 5, 6), layers, ARRAY_LEN(layers));
}

/* An engine, and the parameters that it begins with in params. */
__attribute__((unused)) static struct engine *made_engine(const struct backend *b,
	const struct net *net, const struct engine_config *config, float *params)
{
	auto_free float *noise = random_floats(17, net->params);
	struct mlr_error err = MLR_ERROR_INIT;
	struct engine *engine = NULL;

	if (b->open(net->layers, net->n, config, &engine, &err) < 0)
		fail_msg("%s", err.text);
	net_init_params(net, 1, params);
	for (size_t i = 0; i < net->params; i++) /* gamma and beta too shall be like no other */
		params[i] += 0.05f * noise[i];
	assert_int_equal(engine_set(engine, ENGINE_PARAMS, params, NULL), 0);
	return engine;
}

/* What differs in which layer, as || a - b || / || b ||, may be up to close. */
__attribute__((unused)) static void compare_block(const struct net *net, struct engine *got,
	struct engine *want, enum engine_block which, double close)
{
	static const char *const names[] = { [ENGINE_PARAMS] = "parameters",
		[ENGINE_OPTIMISER] = "moments",
		[ENGINE_OPTIMISER + 1] = "second moments",
		[ENGINE_GRADS] = "gradients",
		[ENGINE_STATES] = "statistics" };
	size_t all = which == ENGINE_STATES ? net->states : net->params;
	auto_free float *a = xcalloc(all, sizeof(*a)), *b = xcalloc(all, sizeof(*b));

	assert_int_equal(engine_get(got, which, a, NULL), 0);
	assert_int_equal(engine_get(want, which, b, NULL), 0);
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		size_t at = which == ENGINE_STATES ? l->state_at : l->weight_at;
		size_t n = which == ENGINE_STATES ? l->states : l->weights;
		double d = n ? distance(a + at, b + at, n) : 0;

		if (!(d <= close))
			fail_msg("%s of layer '%s' differ by %g", names[which], l->name, d);
		if (which == ENGINE_STATES || !l->biases)
			continue;
		/* A bias before batch norm has no gradient but rounding. */
		d = distance(a + l->bias_at, b + l->bias_at, l->biases);
		for (size_t k = 0; k < l->biases && !(d <= close); k++)
			if (!(fabsf(a[l->bias_at + k] - b[l->bias_at + k]) <= (float)close))
				fail_msg("%s of layer '%s', biases, differ by %g", names[which],
					l->name, d);
	}
	if (all && !(distance(a, b, all) <= close))
		fail_msg("%s differ by %g", names[which], distance(a, b, all));
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
	void *bytes;
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

__attribute__((unused)) static int pair_broadcast(
	void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct pair_rank *r = ctx;
	struct pair *p = r->pair;

	r->bytes = x;
	pthread_barrier_wait(&p->barrier);
	if (r->exchange.rank)
		memcpy(x, p->rank[0].bytes, bytes);
	pthread_barrier_wait(&p->barrier);
	return 0;
}

__attribute__((unused)) static int pair_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	++*turns;
	return 0;
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
			.broadcast = pair_broadcast,
			.idle = pair_idle,
			.local_rank = i,
			.local_ranks = 2 };
	}
}

__attribute__((unused)) static void pair_close(struct pair *p)
{
	pthread_barrier_destroy(&p->barrier);
}

#endif
