/*
 * The backend `reference`: the plain loops of ops.h, one after the other, on one thread. It is
 * there to be read and to be compared with; training with it takes about a hundred times as long.
 */
#include "trainer/backend/backend.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/backend/ops.h"
#include "trainer/tensor/rng.h"

#include <errno.h>
#include <string.h>

/* One layer's place in the engine's block of memory. */
struct place {
	float *y;        /* its output */
	float *dy;       /* the loss's gradient with respect to it */
	float *mask;     /* dropout */
	uint8_t *winner; /* max-pooling */
};

struct reference {
	struct engine engine; /* first, so that one pointer serves both */
	const struct layer *layers;
	size_t n;
	size_t params; /* floats in each of the next three */
	float *param, *velocity, *grad;
	struct place *place; /* [n], owned */
	float *block;        /* everything else, owned */
};

static struct reference *own(struct engine *e)
{
	return (struct reference *)e;
}

static void close_engine(struct engine *e)
{
	free(own(e)->block);
	free(own(e)->place);
	free(e);
}

/* Hand out the block's parts, or with a NULL block only count its floats. */
static size_t plan(struct reference *r, float *block)
{
	size_t used = 0, batch = (size_t)r->engine.batch;
#define TAKE(count) (used += (count), block ? block + used - (count) : NULL)

	r->param = TAKE(r->params);
	r->velocity = TAKE(r->params);
	r->grad = TAKE(r->params);
	r->engine.input = TAKE(batch * shape_count(&r->layers[0].in));
	for (size_t i = 0; i < r->n; i++) {
		const struct layer *l = &r->layers[i];
		size_t count = batch * shape_count(&l->out);

		r->place[i].y = TAKE(count);
		r->place[i].dy = TAKE(count);
		if (l->kind == LAYER_DROPOUT)
			r->place[i].mask = TAKE(count);
		if (l->kind == LAYER_MAXPOOL)
			r->place[i].winner = (uint8_t *)TAKE((count + 3) / 4);
	}
#undef TAKE
	return used;
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct reference *r = xcalloc(1, sizeof(*r));
	size_t count;

	r->engine = (struct engine){ &backend_reference, NULL, 0, config->batch, 1 };
	r->layers = layers;
	r->n = n;
	r->place = xcalloc(n, sizeof(*r->place));
	for (size_t i = 0; i < n; i++)
		r->params += layers[i].weights + layers[i].biases;

	count = plan(r, NULL);
	r->block = calloc(count, sizeof(float));
	if (!r->block) {
		close_engine(&r->engine);
		return mlr_fail(err, ENOMEM, "backend reference: %zu bytes of memory",
			count * sizeof(float));
	}
	plan(r, r->block);
	r->engine.memory = count * sizeof(float);
	*ret = &r->engine;
	return 0;
}

static float *block_of(struct reference *r, enum engine_block which)
{
	return which == ENGINE_PARAMS ? r->param : which == ENGINE_VELOCITY ? r->velocity : r->grad;
}

static void get(struct engine *e, enum engine_block which, float *params)
{
	memcpy(params, block_of(own(e), which), own(e)->params * sizeof(float));
}

static void set(struct engine *e, enum engine_block which, const float *params)
{
	memcpy(block_of(own(e), which), params, own(e)->params * sizeof(float));
}

static struct op_conv conv_of(const struct layer *l, int n)
{
	return (struct op_conv){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->outputs, l->size,
		l->stride, l->pad, l->out.dim[1], l->out.dim[2] };
}

static struct op_pool pool_of(const struct layer *l, int n)
{
	return (struct op_pool){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->size };
}

static struct op_dense dense_of(const struct layer *l, int n)
{
	return (struct op_dense){ n, (int)shape_count(&l->in), l->outputs };
}

/* step is NULL when predicting: dropout is the identity then. */
static void layer_forward(struct reference *r, size_t i, int n, const struct step *step)
{
	const struct layer *l = &r->layers[i];
	struct place *at = &r->place[i];
	const float *x = i ? r->place[i - 1].y : r->engine.input;
	const float *w = r->param + l->weight_at, *b = r->param + l->bias_at;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv;
	struct op_dense dense;
	struct op_pool pool;
	struct rng rng;

	switch (l->kind) {
	case LAYER_CONV:
		conv = conv_of(l, n);
		op_conv_forward(&conv, x, w, b, at->y);
		break;
	case LAYER_RELU:
		op_relu_forward(count, x, at->y);
		break;
	case LAYER_MAXPOOL:
		pool = pool_of(l, n);
		op_pool_forward(&pool, x, at->y, at->winner);
		break;
	case LAYER_DENSE:
		dense = dense_of(l, n);
		op_dense_forward(&dense, x, w, b, at->y);
		break;
	case LAYER_DROPOUT:
		if (!step) {
			memcpy(at->y, x, count * sizeof(float));
			break;
		}
		rng_init(&rng, step->dropout_seed, RNG_DROPOUT, step->number << 16 | i);
		rng_dropout(&rng, l->rate, at->mask, count);
		op_dropout(count, x, at->mask, at->y);
		break;
	}
}

static void layer_backward(struct reference *r, size_t i)
{
	const struct layer *l = &r->layers[i];
	struct place *at = &r->place[i];
	int n = r->engine.batch;
	const float *x = i ? r->place[i - 1].y : r->engine.input, *w = r->param + l->weight_at;
	float *dx = i ? r->place[i - 1].dy : NULL; /* nobody needs the images' gradient */
	float *dw = r->grad + l->weight_at, *db = r->grad + l->bias_at;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv;
	struct op_dense dense;
	struct op_pool pool;

	switch (l->kind) {
	case LAYER_CONV:
		conv = conv_of(l, n);
		op_conv_backward_weights(&conv, x, at->dy, dw, db);
		if (dx)
			op_conv_backward_data(&conv, at->dy, w, dx);
		break;
	case LAYER_DENSE:
		dense = dense_of(l, n);
		op_dense_backward_weights(&dense, x, at->dy, dw, db);
		if (dx)
			op_dense_backward_data(&dense, at->dy, w, dx);
		break;
	case LAYER_RELU:
		if (dx)
			op_relu_backward(count, at->y, at->dy, dx);
		break;
	case LAYER_MAXPOOL:
		pool = pool_of(l, n);
		if (dx)
			op_pool_backward(&pool, at->dy, at->winner, dx);
		break;
	case LAYER_DROPOUT:
		if (dx)
			op_dropout(count, at->dy, at->mask, dx);
		break;
	}
}

static const float *forward(struct engine *e, int n)
{
	struct reference *r = own(e);

	for (size_t i = 0; i < r->n; i++)
		layer_forward(r, i, n, NULL);
	return r->place[r->n - 1].y;
}

static void update(struct reference *r, const struct step *s, struct step_result *ret)
{
	ret->penalty = ret->norm2 = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct layer *l = &r->layers[i];
		size_t at = l->weight_at,
		       count = l->weights + l->biases; /* the bias lies behind the weight */
		float l2 = l->decay ? s->l2 : 0;
		double norm2;

		if (!count)
			continue;
		norm2 = op_sgd(count, r->param + at, r->velocity + at, r->grad + at, s->lr,
			s->momentum, l2);
		ret->norm2 += norm2;
		ret->penalty += l2 * norm2 / 2;
	}
}

static void step(
	struct engine *e, const uint8_t *labels, const struct step *s, struct step_result *ret)
{
	struct reference *r = own(e);
	struct place *last = &r->place[r->n - 1];

	for (size_t i = 0; i < r->n; i++)
		layer_forward(r, i, e->batch, s);
	ret->cross_entropy = op_softmax_loss(
		e->batch, r->layers[r->n - 1].out.dim[0], last->y, labels, last->dy, &ret->wrong);
	for (size_t i = r->n; i-- > 0;)
		layer_backward(r, i);
	update(r, s, ret);
}

const struct backend backend_reference = {
	.name = "reference",
	.about = "plain loops on one thread, to compare with",
	.open = open_engine,
	.close = close_engine,
	.get = get,
	.set = set,
	.forward = forward,
	.step = step,
};
