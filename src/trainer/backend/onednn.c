/*
 * The backend `onednn`: convolutions and dense layers by oneDNN, the rest by kernels.h. Where a
 * convolution can be done by winograd.h, oneDNN does its matrix products.
 *
 * Parameters, their velocity and their gradients are three blocks of the same layout, so that the
 * update is one pass. All memory is one block, planned when the engine is made.
 */
#include "trainer/backend/backend.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/backend/kernels.h"
#include "trainer/backend/onednn_node.h"
#include "trainer/backend/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

struct onednn {
	struct engine engine; /* first, so that one pointer serves both */
	struct node_world world;
	struct node *nodes; /* [n], owned */
	size_t n;
	struct kernel_sgd_part *parts; /* [n_parts], owned */
	size_t n_parts;
	void *block; /* owned */
};

static struct onednn *own(struct engine *e)
{
	return (struct onednn *)e;
}

static void close_engine(struct engine *e)
{
	struct onednn *o = own(e);

	for (size_t i = 0; i < o->n; i++)
		node_done(&o->nodes[i]);
	dnn_done(&o->world.dnn);
	free(o->block);
	free(o->parts);
	free(o->nodes);
	free(o);
}

/* One node a layer, but a ReLU behind a layer with parameters is part of that one. */
static int make_nodes(struct onednn *o, const struct layer *layers, size_t n, struct mlr_error *err)
{
	o->nodes = xcalloc(n, sizeof(*o->nodes));
	for (size_t i = 0; i < n; i++) {
		struct node *d = &o->nodes[o->n];
		int r,
			joined = layer_has_params(&layers[i]) && i + 1 < n &&
			layers[i + 1].kind == LAYER_RELU;

		d->layer = &layers[i];
		d->index = i;
		d->first = o->n == 0;
		d->relu = joined || layers[i].kind == LAYER_RELU;
		d->pooled = i + (size_t)joined + 1 < n &&
			layers[i + (size_t)joined + 1].kind == LAYER_MAXPOOL;
		d->in = d->first ? node_plain_format(o->engine.batch, &layers[0].in) : d[-1].format;
		o->n++; /* also before a failure, whose remains are then cleared */
		r = node_make(d, &o->world, err);
		if (r < 0)
			return r;
		i += (size_t)joined;
	}
	return 0;
}

/* Share out the block, or with NULL only count its bytes. */
static size_t plan(struct onednn *o, void *block)
{
	struct node_world *w = &o->world;
	struct plan p = { block, 0 };
	size_t scratch = 0;

	w->param = plan_take(&p, w->params * sizeof(float));
	w->velocity = plan_take(&p, w->params * sizeof(float));
	w->grad = plan_take(&p, w->params * sizeof(float));
	w->input = plan_take(
		&p, (size_t)w->batch * shape_count(&o->nodes[0].layer->in) * sizeof(float));
	for (size_t i = 0; i < o->n; i++) {
		node_plan(&o->nodes[i], w, &p);
		if (node_scratch(&o->nodes[i]) > scratch)
			scratch = node_scratch(&o->nodes[i]);
	}
	w->scratch = plan_take(&p, scratch);
	return p.used;
}

static int allocate(struct onednn *o, struct mlr_error *err)
{
	size_t bytes = (plan(o, NULL) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

	o->block = aligned_alloc(HUGE_PAGE, bytes);
	if (!o->block)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", bytes);
	madvise(o->block, bytes, MADV_HUGEPAGE); /* fewer TLB misses where it works */
	memset(o->block, 0, bytes);
	o->engine.memory = plan(o, o->block);
	o->engine.input = o->world.input;
	return 0;
}

static int bind_all(struct onednn *o, struct mlr_error *err)
{
	for (size_t i = 0; i < o->n; i++) {
		int r = node_bind(&o->nodes[i], &o->world, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void make_parts(struct onednn *o)
{
	o->parts = xcalloc(o->n, sizeof(*o->parts));
	for (size_t i = 0; i < o->n; i++)
		if (layer_has_params(o->nodes[i].layer))
			o->parts[o->n_parts++] = (struct kernel_sgd_part){ o->nodes[i].at,
				o->nodes[i].count };
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct onednn *o = xcalloc(1, sizeof(*o));
	int threads = config->threads < KERNELS_THREADS_MAX ? config->threads : KERNELS_THREADS_MAX;
	int r;

	o->engine = (struct engine){ &backend_onednn, NULL, 0, config->batch, threads };
	o->world.batch = config->batch;
	o->world.threads = threads;
	if ((r = dnn_init(&o->world.dnn, threads, err)) < 0 ||
		(r = make_nodes(o, layers, n, err)) < 0 || (r = allocate(o, err)) < 0 ||
		(r = bind_all(o, err)) < 0) {
		close_engine(&o->engine);
		return mlr_wrap(err, "backend onednn");
	}
	make_parts(o);
	*ret = &o->engine;
	return 0;
}

static float *block_of(struct onednn *o, enum engine_block which)
{
	const struct node_world *w = &o->world;

	return which == ENGINE_PARAMS ? w->param : which == ENGINE_VELOCITY ? w->velocity : w->grad;
}

static void get(struct engine *e, enum engine_block which, float *params)
{
	struct onednn *o = own(e);

	for (size_t i = 0; i < o->n; i++)
		node_get(&o->nodes[i], &o->world, block_of(o, which), params);
}

static void set(struct engine *e, enum engine_block which, const float *params)
{
	struct onednn *o = own(e);

	for (size_t i = 0; i < o->n; i++)
		node_set(&o->nodes[i], &o->world, block_of(o, which), params);
}

static const float *forward(struct engine *e, int n)
{
	struct onednn *o = own(e);

	(void)n; /* the primitives are made for whole batches; rows beyond n are nobody's */
	for (size_t i = 0; i < o->n; i++)
		node_forward(&o->nodes[i], &o->world, NULL);
	return o->nodes[o->n - 1].y;
}

static void update(struct onednn *o, const struct step *s, struct step_result *ret)
{
	const struct node_world *w = &o->world;
	size_t k = 0;

	for (size_t i = 0; i < o->n; i++)
		if (layer_has_params(o->nodes[i].layer))
			o->parts[k++].l2 = o->nodes[i].layer->decay ? s->l2 : 0;
	kernel_sgd(o->parts, o->n_parts, w->param, w->velocity, w->grad, s->lr, s->momentum,
		&ret->penalty, &ret->norm2);
}

static void step(
	struct engine *e, const uint8_t *labels, const struct step *s, struct step_result *ret)
{
	struct onednn *o = own(e);
	struct node *last = &o->nodes[o->n - 1];

	for (size_t i = 0; i < o->n; i++)
		node_forward(&o->nodes[i], &o->world, s);
	ret->cross_entropy = op_softmax_loss(
		e->batch, last->layer->out.dim[0], last->y, labels, last->dy, &ret->wrong);
	for (size_t i = o->n; i-- > 0;)
		node_backward(&o->nodes[i], &o->world);
	update(o, s, ret);
}

const struct backend backend_onednn = {
	.name = "onednn",
	.about = "oneDNN on all cores",
	.open = open_engine,
	.close = close_engine,
	.get = get,
	.set = set,
	.forward = forward,
	.step = step,
};
