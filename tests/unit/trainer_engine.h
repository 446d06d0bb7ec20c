/*
 * Engines in unit tests: one on made-up images and labels, its steps, alone or as one of two ranks,
 * and its gradients by finite differences.
 */
#ifndef TRAINER_ENGINE_H
#define TRAINER_ENGINE_H

#include "trainer_net.h"

struct setup {
	struct net *net;
	struct engine *engine;
	float *params;
	uint16_t labels[64];
	uint8_t *images;
	struct batch batch;
};

__attribute__((unused)) static struct engine_config config_of(
	int batch, int threads, const struct exchange *exchange)
{
	struct engine_config c = { .batch = batch, .threads = threads, .exchange = exchange };

	for (int k = 0; k < IMAGE_CHANNELS_MAX; k++)
		c.norm.mean[k] = c.norm.scale[k] = 127.5f;
	return c;
}

/* The images and labels of rank r are those of one rank from r * batch on. */
__attribute__((unused)) static void set_up(struct setup *s, const struct backend *b,
	struct net *net, const struct engine_config *config)
{
	int batch = config->batch, rank = config->exchange ? config->exchange->rank : 0;
	size_t pixels = shape_count(&net->input), n = (size_t)(batch * (rank + 1)) * pixels;
	struct rng rng;

	*s = (struct setup){ .net = net };
	assert_true(batch <= (int)ARRAY_LEN(s->labels));
	s->params = xcalloc(net->params, sizeof(float));
	s->engine = made_engine(b, net, config, s->params);
	s->images = xcalloc(n, 1);
	rng_init(&rng, 11, RNG_TEST, 0);
	for (size_t i = 0; i < n; i++)
		s->images[i] = (uint8_t)rng_below(&rng, 256);
	for (int i = 0; i < batch; i++)
		s->labels[i] = (uint16_t)((rank * batch + i) * 7 % net->classes);
	s->batch = (struct batch){ .rows = batch,
		.images = s->images + (size_t)(rank * batch) * pixels,
		.labels = s->labels };
}

__attribute__((unused)) static void tear_down(struct setup *s)
{
	engine_close(&s->engine);
	free(s->params);
	free(s->images);
}

__attribute__((unused)) static int step_of(
	struct setup *s, uint64_t number, struct step_result *ret)
{
	const struct step step = {
		.lr = 0.02f, .momentum = 0.9f, .l2 = 0.01f, .seed = 1, .number = number
	};

	return engine_step(s->engine, &s->batch, &step, 1, ret, NULL);
}

/* A rank's three steps, as a thread of its own or not. */
struct run {
	struct setup s;
	int status;
	struct step_result result[3];
};

__attribute__((unused)) static void *three_steps(void *ctx)
{
	struct run *r = ctx;

	for (uint64_t i = 0; i < 3 && r->status == 0; i++)
		r->status = step_of(&r->s, i, &r->result[i]);
	return NULL;
}

/* Those of both ranks of a pair. */
__attribute__((unused)) static void three_steps_each(struct run rank[2])
{
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, three_steps, &rank[1]), 0);
	three_steps(&rank[0]);
	pthread_join(other, NULL);
}

/* --- finite differences ----------------------------------------------------------------- */

/*
 * Of a layer: the gradient of L = sum(r * y) with respect to x, by central differences of step
 * EPSILON, against what backward says for dy = r. Layers are piecewise linear, so a difference is
 * exact but for rounding; arrays are float, which gives about 1e-7 / EPSILON and sets the
 * tolerance.
 */
#define EPSILON   0x1p-6f
#define TOLERANCE 1e-3

typedef void (*forward_fn)(void *layer, const float *x, float *y);

__attribute__((unused)) static double weighted_sum(
	forward_fn f, void *layer, const float *x, const float *r, float *y, size_t ny)
{
	double sum = 0;

	f(layer, x, y);
	for (size_t i = 0; i < ny; i++)
		sum += (double)r[i] * y[i];
	return sum;
}

__attribute__((unused)) static void check_gradient(
	forward_fn f, void *layer, float *x, size_t nx, const float *r, size_t ny, const float *dx)
{
	auto_free float *y = xcalloc(ny, sizeof(*y));

	for (size_t i = 0; i < nx; i++) {
		float was = x[i];
		double up, down, slope;

		x[i] = was + EPSILON;
		up = weighted_sum(f, layer, x, r, y, ny);
		x[i] = was - EPSILON;
		down = weighted_sum(f, layer, x, r, y, ny);
		x[i] = was;
		slope = (up - down) / (2 * EPSILON);
		if (fabs(slope - dx[i]) > TOLERANCE * (1 + fabs(slope)))
			fail_msg("element %zu: %g by differences, %g by backward", i, slope,
				(double)dx[i]);
	}
}

__attribute__((unused)) static double loss_at(struct setup *s, const float *params)
{
	const struct step step = { .seed = 3, .number = 5 };
	struct step_result got;

	assert_int_equal(engine_set(s->engine, ENGINE_PARAMS, params, NULL), 0);
	assert_int_equal(engine_step(s->engine, &s->batch, &step, 1, &got, NULL), 0);
	return got.cross_entropy;
}

/*
 * Of a whole network: the gradient of its loss as the engine has it, and by differences.
 * Through a whole network a step may cross a kink (ReLU, maximum) or bend (softmax), so the step is
 * smaller than a layer's and only the length of a gradient can be told to 1 %. The kinks that
 * random numbers place within the step are few.
 */
__attribute__((unused)) static void loss_gradients(struct setup *s, float *grad, float *slope)
{
	const float step = 0x1p-10f;

	loss_at(s, s->params);
	assert_int_equal(engine_get(s->engine, ENGINE_GRADS, grad, NULL), 0);
	for (size_t i = 0; i < s->net->params; i++) {
		float was = s->params[i];
		double up, down;

		s->params[i] = was + step;
		up = loss_at(s, s->params);
		s->params[i] = was - step;
		down = loss_at(s, s->params);
		s->params[i] = was;
		slope[i] = (float)((up - down) / (2 * step));
	}
}

#endif
