/*
 * The backend `onednn`: convolutions and dense layers by oneDNN, the rest by kernels.h. Where a
 * convolution can be done by winograd.h, oneDNN does its matrix products.
 *
 * A layer and the ReLU behind it make one node. oneDNN chooses every format; an activation keeps
 * its format from node to node, and a reorder is made only where two nodes disagree. Parameters,
 * their velocity and their gradients are three blocks of the same layout, so that the update is one
 * pass. All memory is one block, planned when the engine is made.
 */
#include "trainer/backend/backend.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "trainer/backend/dnn.h"
#include "trainer/backend/kernels.h"
#include "trainer/backend/ops.h"
#include "trainer/backend/winograd.h"
#include "trainer/tensor/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN       64            /* bytes: a cache line and a vector */
#define HUGE_PAGE   ((size_t)2 << 20)
#define PARAM_ALIGN (ALIGN / sizeof(float))

struct node {
	const struct layer *layer;
	size_t index; /* the layer's place in the network, which names its dropout stream */
	int relu;     /* a ReLU behind it is part of it */
	int first;    /* nobody needs its input's gradient */
	int pooled;   /* a max-pooling node follows, which turns y into dy in place */

	struct dnn_format format; /* of y and dy */
	float *y, *dy;

	/* Layers with parameters. What is empty is not needed. */
	struct dnn_format in, src;       /* what comes in, what forward reads */
	struct dnn_format weights;       /* in the blocks */
	size_t at, bias_at, count;       /* floats: where in the blocks, and how many to the next */
	struct dnn_op forward, to_data, to_weights;
	struct dnn_op in_to_src, dsrc_to_din;    /* where a node before has another format */
	struct dnn_op weights_to_data, dw_to_grad; /* where a direction wants other weights */
	float *src_copy, *dsrc, *data_weights, *dw;
	struct dnn_op plain_to_weights, weights_to_plain;

	int fast; /* the convolution goes by winograd.h, and the operations above are empty */
	struct winograd wino;
	struct dnn_op times_u, to_dv, to_du; /* M = V U, dV = dM U', dU = V' dM */
	float *v, *m, *u, *du, *partial;     /* dV takes V's place, dM takes M's */

	struct kernel_pool pool;
	float *mask, *mask_plain; /* dropout; the second where the format is not row-major */
	struct dnn_op plain_to_mask;
};

struct onednn {
	struct engine engine; /* first, so that one pointer serves both */
	struct dnn dnn;
	struct node *nodes; /* [n], owned */
	size_t n;
	size_t params; /* floats in each block, padding included */
	float *param, *velocity, *grad;
	struct kernel_sgd_part *parts; /* [n_parts], owned */
	size_t n_parts;
	size_t scratch_bytes;
	void *scratch;
	void *block; /* owned */
};

static struct onednn *own(struct engine *e)
{
	return (struct onednn *)e;
}

static void node_done(struct node *d)
{
	struct dnn_op *ops[] = { &d->forward, &d->to_data, &d->to_weights, &d->in_to_src, &d->dsrc_to_din,
		&d->weights_to_data, &d->dw_to_grad, &d->plain_to_weights, &d->weights_to_plain,
		&d->plain_to_mask, &d->times_u, &d->to_dv, &d->to_du };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		dnn_op_done(ops[i]);
}

static void close_engine(struct engine *e)
{
	struct onednn *o = own(e);

	for (size_t i = 0; i < o->n; i++)
		node_done(&o->nodes[i]);
	dnn_done(&o->dnn);
	free(o->block);
	free(o->parts);
	free(o->nodes);
	free(o);
}

/* A shape of one image as that of a batch. */
static int batch_dims(int batch, const struct shape *s, int dims[4])
{
	dims[0] = batch;
	for (int i = 0; i < s->rank; i++)
		dims[i + 1] = s->dim[i];
	return s->rank + 1;
}

static struct dnn_format plain_activation(int batch, const struct shape *s)
{
	int dims[4] = { 0 }, rank = batch_dims(batch, s, dims);

	return dnn_format_plain(rank, dims);
}

/* The dimensions of a layer's weights as oneDNN sees them: a dense layer behind an image reads it
 * as an image, in any format, which saves the flattening. */
static int weight_dims(const struct layer *l, int dims[4])
{
	if (l->kind == LAYER_CONV) {
		memcpy(dims, (int[]){ l->outputs, l->in.dim[0], l->size, l->size }, 4 * sizeof(int));
		return 4;
	}
	return batch_dims(l->outputs, &l->in, dims);
}

/* The layer with every format left open, but a dense layer's output, which is a row, and its input,
 * which it can mostly read as it lies. */
static struct dnn_layer open_layer(const struct node *d, int batch)
{
	const struct layer *l = d->layer;
	struct dnn_layer ret = { .is_conv = l->kind == LAYER_CONV, .stride = l->stride, .pad = l->pad,
		.relu = d->relu };
	int dims[4] = { 0 }, rank = batch_dims(batch, &l->in, dims);

	ret.src = ret.is_conv ? dnn_format_any(rank, dims) : d->in;
	rank = batch_dims(batch, &l->out, dims);
	ret.dst = ret.is_conv ? dnn_format_any(rank, dims) : dnn_format_plain(rank, dims);
	rank = weight_dims(l, dims);
	ret.weights = dnn_format_any(rank, dims);
	ret.bias = dnn_format_plain(1, &l->outputs);
	return ret;
}

static int reorder_if_needed(struct onednn *o, const struct dnn_format *from, const struct dnn_format *to,
	struct dnn_op *op, struct mlr_error *err)
{
	return dnn_format_same(from, to) ? 0 : dnn_reorder(&o->dnn, from, to, op, err);
}

/* A dense layer whose input as it lies would be read by oneDNN's slow general code gets it in the
 * format that oneDNN likes. */
static int make_forward(struct onednn *o, struct node *d, struct dnn_layer *l, struct mlr_error *err)
{
	int dims[4] = { 0 }, rank = batch_dims(o->engine.batch, &d->layer->in, dims);
	int r = dnn_forward(&o->dnn, l, &d->forward, err);

	if (l->is_conv || (r < 0 && r != -ENOTSUP) || (r == 0 && strncmp(dnn_op_name(&d->forward), "ref", 3) != 0))
		return r;
	dnn_op_done(&d->forward);
	l->src = dnn_format_any(rank, dims);
	return dnn_forward(&o->dnn, l, &d->forward, err);
}

/* Make the three directions of a layer and the reorders between formats that differ. */
static int make_layer(struct onednn *o, struct node *d, struct mlr_error *err)
{
	struct dnn_layer l = open_layer(d, o->engine.batch);
	struct dnn_format f;
	int dims[4] = { 0 }, rank = weight_dims(d->layer, dims), r;

	r = make_forward(o, d, &l, err);
	if (r < 0)
		return r;
	d->src = l.src = dnn_op_format(&d->forward, DNNL_ARG_SRC);
	d->format = l.dst = dnn_op_format(&d->forward, DNNL_ARG_DST);
	d->weights = dnn_op_format(&d->forward, DNNL_ARG_WEIGHTS);
	f = dnn_format_plain(rank, dims);
	if ((r = reorder_if_needed(o, &d->in, &d->src, &d->in_to_src, err)) < 0 ||
		(r = dnn_reorder(&o->dnn, &f, &d->weights, &d->plain_to_weights, err)) < 0 ||
		(r = dnn_reorder(&o->dnn, &d->weights, &f, &d->weights_to_plain, err)) < 0 ||
		(r = dnn_backward_weights(&o->dnn, &l, &d->forward, &d->to_weights, err)) < 0)
		return r;
	f = dnn_op_format(&d->to_weights, DNNL_ARG_DIFF_WEIGHTS);
	r = reorder_if_needed(o, &f, &d->weights, &d->dw_to_grad, err);
	if (r < 0 || d->first)
		return r;

	/* A dense layer's weights are large: reading them as they lie beats a faster format of their own. */
	if (!l.is_conv)
		l.weights = d->weights;
	r = dnn_backward_data(&o->dnn, &l, &d->forward, &d->to_data, err);
	if (r < 0)
		return r;
	f = dnn_op_format(&d->to_data, DNNL_ARG_WEIGHTS);
	r = reorder_if_needed(o, &d->weights, &f, &d->weights_to_data, err);
	return r < 0 ? r : reorder_if_needed(o, &d->src, &d->in, &d->dsrc_to_din, err);
}

/* Can this convolution go by winograd.h, in the format that its input has? */
static int is_fast(struct onednn *o, struct node *d)
{
	const struct layer *l = d->layer;

	return l->kind == LAYER_CONV && dnn_format_block(&d->in) == 16 &&
	       winograd_fits(&d->wino, o->engine.batch, l->in.dim[0], l->outputs, l->in.dim[1], l->in.dim[2],
		       l->size, l->stride, l->pad);
}

static int make_fast(struct onednn *o, struct node *d, struct mlr_error *err)
{
	const struct winograd *g = &d->wino;
	size_t c = (size_t)g->c, k = (size_t)g->k, u = c * k;
	const struct dnn_product times_u = { WINOGRAD_POINTS, g->tiles, k, c, { g->v_stride, c, 1 },
		{ u, k, 1 }, { g->m_stride, k, 1 } };
	const struct dnn_product to_dv = { WINOGRAD_POINTS, g->tiles, c, k, { g->m_stride, k, 1 },
		{ u, 1, k }, { g->v_stride, c, 1 } };
	const struct dnn_product to_du = { WINOGRAD_POINTS, c, k, g->tiles, { g->v_stride, 1, c },
		{ g->m_stride, k, 1 }, { u, k, 1 } };
	int dims[4] = { 0 }, r;
	struct dnn_format plain;

	d->fast = 1;
	batch_dims(g->n, &d->layer->out, dims);
	d->format = dnn_format_by_16(dims);
	weight_dims(d->layer, dims);
	plain = dnn_format_plain(4, dims);
	d->weights = dnn_format_hwio(dims);
	if ((r = dnn_reorder(&o->dnn, &plain, &d->weights, &d->plain_to_weights, err)) < 0 ||
		(r = dnn_reorder(&o->dnn, &d->weights, &plain, &d->weights_to_plain, err)) < 0 ||
		(r = dnn_multiply(&o->dnn, &times_u, &d->times_u, err)) < 0 ||
		(r = dnn_multiply(&o->dnn, &to_du, &d->to_du, err)) < 0)
		return r;
	return d->first ? 0 : dnn_multiply(&o->dnn, &to_dv, &d->to_dv, err);
}

static void place_params(struct onednn *o, struct node *d)
{
	size_t weights = dnn_format_size(&d->weights) / sizeof(float);

	d->at = o->params;
	d->bias_at = d->at + weights;
	d->count = (weights + d->layer->biases + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
	o->params += d->count;
}

static int make_pool(struct node *d, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	int block = dnn_format_block(&d->in), batch = dnn_format_batch(&d->in), dims[4];
	int channels = l->in.dim[0];

	if (block == 0)
		return mlr_fail(err, ENOTSUP, "oneDNN's format of its input is not known");
	channels = (channels + block - 1) / block * block;
	d->pool = (struct kernel_pool){ 0, l->in.dim[1], l->in.dim[2], block, l->size };
	d->pool.rows = (size_t)batch * (size_t)(channels / block);
	batch_dims(batch, &l->out, dims);
	d->format = dnn_format_like(&d->in, dims);
	return 0;
}

static void describe(const struct node *d)
{
	if (d->fast)
		mlr_debug("layer '%s': Winograd, forward %s, backward data %s, weights %s", d->layer->name,
			dnn_op_name(&d->times_u), d->first ? "-" : dnn_op_name(&d->to_dv), dnn_op_name(&d->to_du));
	else
		mlr_debug("layer '%s': forward %s, backward data %s, weights %s%s%s%s%s", d->layer->name,
			dnn_op_name(&d->forward), d->first ? "-" : dnn_op_name(&d->to_data),
			dnn_op_name(&d->to_weights), d->in_to_src.n ? ", reorders input" : "",
			d->dsrc_to_din.n ? ", reorders input's gradient" : "",
			d->weights_to_data.n ? ", reorders weights" : "",
			d->dw_to_grad.n ? ", reorders weights' gradient" : "");
}

static int make_node(struct onednn *o, struct node *d, struct mlr_error *err)
{
	struct dnn_format plain;
	int r = 0;

	switch (d->layer->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		r = is_fast(o, d) ? make_fast(o, d, err) : make_layer(o, d, err);
		if (r < 0)
			break;
		place_params(o, d);
		describe(d);
		break;
	case LAYER_MAXPOOL:
		r = make_pool(d, err);
		break;
	case LAYER_DROPOUT:
		d->format = d->in;
		plain = plain_activation(o->engine.batch, &d->layer->in);
		r = reorder_if_needed(o, &plain, &d->format, &d->plain_to_mask, err);
		break;
	case LAYER_RELU:
		d->format = d->in;
		break;
	}
	return r < 0 ? mlr_wrap(err, "layer '%s'", d->layer->name) : 0;
}

/* One node a layer, but a ReLU behind a layer with parameters is part of that one. */
static int make_nodes(struct onednn *o, const struct layer *layers, size_t n, struct mlr_error *err)
{
	o->nodes = xcalloc(n, sizeof(*o->nodes));
	for (size_t i = 0; i < n; i++) {
		struct node *d = &o->nodes[o->n];
		int r;

		d->layer = &layers[i];
		d->index = i;
		d->first = o->n == 0;
		d->relu = layer_has_params(d->layer) && i + 1 < n && layers[i + 1].kind == LAYER_RELU;
		d->in = d->first ? plain_activation(o->engine.batch, &layers[0].in) : d[-1].format;
		if (d->layer->kind == LAYER_MAXPOOL && !d->first)
			d[-1].pooled = 1;
		o->n++; /* also after a failure, whose remains are then cleared */
		r = make_node(o, d, err);
		if (r < 0)
			return r;
		i += (size_t)d->relu;
	}
	return 0;
}

/* Hand out bytes of a block, or with a NULL block only count them. */
struct plan {
	char *block;
	size_t used;
};

static void *take(struct plan *p, size_t bytes)
{
	size_t at = p->used;

	p->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return p->block ? p->block + at : NULL;
}

static void *take_if(struct plan *p, const struct dnn_op *op, const struct dnn_format *f)
{
	return op->n ? take(p, dnn_format_size(f)) : NULL;
}

static void plan_node(struct plan *p, struct node *d, int threads)
{
	struct dnn_format f;

	d->y = take(p, dnn_format_size(&d->format));
	d->dy = d->pooled ? d->y : take(p, dnn_format_size(&d->format));
	if (d->layer->kind == LAYER_DROPOUT) {
		d->mask = take(p, dnn_format_size(&d->format));
		d->mask_plain = d->plain_to_mask.n ? take(p, dnn_format_size(&d->format)) : d->mask;
	}
	if (d->fast) {
		d->v = take(p, winograd_v(&d->wino) * sizeof(float));
		d->m = take(p, winograd_m(&d->wino) * sizeof(float));
		d->u = take(p, winograd_u(&d->wino) * sizeof(float));
		d->du = take(p, winograd_u(&d->wino) * sizeof(float));
		d->partial = take(p, (size_t)(threads * d->wino.k) * sizeof(float));
	}
	if (!layer_has_params(d->layer) || d->fast)
		return;
	d->src_copy = take_if(p, &d->in_to_src, &d->src);
	d->dsrc = take_if(p, &d->dsrc_to_din, &d->src);
	f = dnn_op_format(&d->to_weights, DNNL_ARG_DIFF_WEIGHTS);
	d->dw = take_if(p, &d->dw_to_grad, &f);
	if (d->weights_to_data.n) {
		f = dnn_op_format(&d->to_data, DNNL_ARG_WEIGHTS);
		d->data_weights = take(p, dnn_format_size(&f));
	}
}

static void need_scratch(struct onednn *o, const struct dnn_op *op)
{
	size_t bytes = dnn_op_scratch(op);

	if (bytes > o->scratch_bytes)
		o->scratch_bytes = bytes;
}

static size_t plan(struct onednn *o, void *block)
{
	struct plan p = { block, 0 };
	const struct dnn_format in = plain_activation(o->engine.batch, &o->nodes[0].layer->in);

	o->param = take(&p, o->params * sizeof(float));
	o->velocity = take(&p, o->params * sizeof(float));
	o->grad = take(&p, o->params * sizeof(float));
	o->engine.input = take(&p, dnn_format_size(&in));
	for (size_t i = 0; i < o->n; i++)
		plan_node(&p, &o->nodes[i], o->engine.threads);
	o->scratch = take(&p, o->scratch_bytes);
	return p.used;
}

static int bind(struct onednn *o, struct dnn_op *op, const int *args, void *const *data, int n,
	struct mlr_error *err)
{
	for (int i = 0; i < n; i++) {
		int r = dnn_op_bind(&o->dnn, op, args[i], data[i], err);

		if (r < 0)
			return r;
	}
	return dnn_op_scratch(op) ? dnn_op_bind(&o->dnn, op, DNNL_ARG_SCRATCHPAD, o->scratch, err) : 0;
}

static void point(struct dnn_op *op, const void *from, void *to)
{
	if (!op->n)
		return;
	dnn_op_point(op, DNNL_ARG_FROM, from);
	dnn_op_point(op, DNNL_ARG_TO, to);
}

static int bind_layer(struct onednn *o, struct node *d, float *x, float *dx, struct mlr_error *err)
{
	static const int forward[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST };
	static const int weights[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
		DNNL_ARG_DIFF_BIAS };
	static const int data[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	float *w = o->param + d->at, *dw = o->grad + d->at;
	float *src = d->src_copy ? d->src_copy : x, *dsrc = d->dsrc ? d->dsrc : dx;
	int r;

	point(&d->in_to_src, x, d->src_copy);
	point(&d->dsrc_to_din, d->dsrc, dx);
	point(&d->weights_to_data, w, d->data_weights);
	point(&d->dw_to_grad, d->dw, dw);
	if ((r = bind(o, &d->forward, forward, (void *[]){ src, w, o->param + d->bias_at, d->y }, 4, err)) < 0 ||
		(r = bind(o, &d->to_weights, weights, (void *[]){ src, d->dy, d->dw ? d->dw : dw,
			o->grad + d->bias_at }, 4, err)) < 0)
		return r;
	if (d->first)
		return 0;
	return bind(o, &d->to_data, data, (void *[]){ d->dy, d->data_weights ? d->data_weights : w, dsrc }, 3,
		err);
}

static int bind_fast(struct onednn *o, struct node *d, struct mlr_error *err)
{
	static const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	int r;

	if ((r = bind(o, &d->times_u, args, (void *[]){ d->v, d->u, d->m }, 3, err)) < 0 ||
		(r = bind(o, &d->to_du, args, (void *[]){ d->v, d->m, d->du }, 3, err)) < 0)
		return r;
	return d->first ? 0 : bind(o, &d->to_dv, args, (void *[]){ d->m, d->u, d->v }, 3, err);
}

static int bind_all(struct onednn *o, struct mlr_error *err)
{
	for (size_t i = 0; i < o->n; i++) {
		struct node *d = &o->nodes[i];
		int r = 0;

		if (d->fast)
			r = bind_fast(o, d, err);
		else if (layer_has_params(d->layer))
			r = bind_layer(o, d, i ? d[-1].y : o->engine.input, i ? d[-1].dy : NULL, err);
		if (r < 0)
			return mlr_wrap(err, "layer '%s'", d->layer->name);
		point(&d->plain_to_mask, d->mask_plain, d->mask);
	}
	return 0;
}

static void make_parts(struct onednn *o)
{
	o->parts = xcalloc(o->n, sizeof(*o->parts));
	for (size_t i = 0; i < o->n; i++)
		if (layer_has_params(o->nodes[i].layer))
			o->parts[o->n_parts++] = (struct kernel_sgd_part){ o->nodes[i].at, o->nodes[i].count };
}

static int allocate(struct onednn *o, struct mlr_error *err)
{
	size_t bytes;

	for (size_t i = 0; i < o->n; i++) {
		const struct node *d = &o->nodes[i];
		const struct dnn_op *ops[] = { &d->forward, &d->to_data, &d->to_weights, &d->times_u, &d->to_dv,
			&d->to_du };

		for (size_t k = 0; k < ARRAY_LEN(ops); k++)
			need_scratch(o, ops[k]);
	}
	bytes = (plan(o, NULL) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	o->block = aligned_alloc(HUGE_PAGE, bytes);
	if (!o->block)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", bytes);
	madvise(o->block, bytes, MADV_HUGEPAGE); /* fewer TLB misses where it works */
	memset(o->block, 0, bytes);
	o->engine.memory = plan(o, o->block);
	return 0;
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct onednn *o = xcalloc(1, sizeof(*o));
	int threads = config->threads < KERNELS_THREADS_MAX ? config->threads : KERNELS_THREADS_MAX;
	int r;

	o->engine = (struct engine){ &backend_onednn, NULL, 0, config->batch, threads };
	if ((r = dnn_init(&o->dnn, threads, err)) < 0 || (r = make_nodes(o, layers, n, err)) < 0 ||
		(r = allocate(o, err)) < 0 || (r = bind_all(o, err)) < 0) {
		close_engine(&o->engine);
		return mlr_wrap(err, "backend onednn");
	}
	make_parts(o);
	*ret = &o->engine;
	return 0;
}

static float *block_of(struct onednn *o, enum engine_block which)
{
	return which == ENGINE_PARAMS ? o->param : which == ENGINE_VELOCITY ? o->velocity : o->grad;
}

static void get(struct engine *e, enum engine_block which, float *params)
{
	struct onednn *o = own(e);
	float *block = block_of(o, which);

	for (size_t i = 0; i < o->n; i++) {
		struct node *d = &o->nodes[i];

		if (!layer_has_params(d->layer))
			continue;
		point(&d->weights_to_plain, block + d->at, params + d->layer->weight_at);
		dnn_op_run(&o->dnn, &d->weights_to_plain);
		memcpy(params + d->layer->bias_at, block + d->bias_at, d->layer->biases * sizeof(float));
	}
}

static void set(struct engine *e, enum engine_block which, const float *params)
{
	struct onednn *o = own(e);
	float *block = block_of(o, which);

	for (size_t i = 0; i < o->n; i++) {
		struct node *d = &o->nodes[i];

		if (!layer_has_params(d->layer))
			continue;
		point(&d->plain_to_weights, params + d->layer->weight_at, block + d->at);
		dnn_op_run(&o->dnn, &d->plain_to_weights);
		memcpy(block + d->bias_at, params + d->layer->bias_at, d->layer->biases * sizeof(float));
	}
}

static size_t floats(const struct node *d)
{
	return dnn_format_size(&d->format) / sizeof(float);
}

/* step is NULL when predicting. */
static void dropout_forward(struct onednn *o, struct node *d, const float *x, const struct step *step)
{
	struct rng rng;

	if (!step) {
		memcpy(d->y, x, floats(d) * sizeof(float));
		return;
	}
	rng_init(&rng, step->dropout_seed, RNG_DROPOUT, step->number << 16 | d->index);
	rng_dropout(&rng, d->layer->rate, d->mask_plain, (size_t)o->engine.batch * shape_count(&d->layer->out));
	dnn_op_run(&o->dnn, &d->plain_to_mask);
	kernel_multiply(floats(d), x, d->mask, d->y);
}

static void fast_forward(struct onednn *o, struct node *d, const float *x)
{
	winograd_input(&d->wino, x, d->v);
	winograd_weights(&d->wino, o->param + d->at, d->u);
	dnn_op_run(&o->dnn, &d->times_u);
	winograd_output(&d->wino, d->m, o->param + d->bias_at, d->relu, d->y);
}

/* V, U and M are what forward left. */
static void fast_backward(struct onednn *o, struct node *d)
{
	winograd_output_back(&d->wino, d->dy, d->m, o->grad + d->bias_at, d->partial, o->engine.threads);
	dnn_op_run(&o->dnn, &d->to_du);
	winograd_weights_back(&d->wino, d->du, o->grad + d->at);
	if (d->first)
		return;
	dnn_op_run(&o->dnn, &d->to_dv);
	winograd_input_back(&d->wino, d->v, d[-1].dy);
}

static void forward_all(struct onednn *o, const struct step *step)
{
	for (size_t i = 0; i < o->n; i++) {
		struct node *d = &o->nodes[i];
		const float *x = i ? d[-1].y : o->engine.input;

		switch (d->layer->kind) {
		case LAYER_CONV:
		case LAYER_DENSE:
			if (d->fast) {
				fast_forward(o, d, x);
				break;
			}
			dnn_op_run(&o->dnn, &d->in_to_src);
			dnn_op_run(&o->dnn, &d->forward);
			break;
		case LAYER_MAXPOOL:
			kernel_pool_forward(&d->pool, x, d->y);
			break;
		case LAYER_DROPOUT:
			dropout_forward(o, d, x, step);
			break;
		case LAYER_RELU:
			kernel_relu_forward(floats(d), x, d->y);
			break;
		}
	}
}

static void layer_backward(struct onednn *o, struct node *d)
{
	if (d->relu && !d->pooled) /* a pooling node has passed it already */
		kernel_relu_backward(floats(d), d->y, d->dy);
	if (d->fast) {
		fast_backward(o, d);
		return;
	}
	dnn_op_run(&o->dnn, &d->to_weights);
	dnn_op_run(&o->dnn, &d->dw_to_grad);
	if (d->first)
		return;
	dnn_op_run(&o->dnn, &d->weights_to_data);
	dnn_op_run(&o->dnn, &d->to_data);
	dnn_op_run(&o->dnn, &d->dsrc_to_din);
}

static void backward_all(struct onednn *o)
{
	for (size_t i = o->n; i-- > 0;) {
		struct node *d = &o->nodes[i];

		if (layer_has_params(d->layer)) {
			layer_backward(o, d);
			continue;
		}
		if (d->first)
			continue;
		switch (d->layer->kind) {
		case LAYER_MAXPOOL:
			kernel_pool_backward(&d->pool, d[-1].relu, d->dy, d[-1].dy);
			break;
		case LAYER_DROPOUT:
			kernel_multiply(floats(d), d->dy, d->mask, d[-1].dy);
			break;
		default: /* a ReLU of its own */
			memcpy(d[-1].dy, d->dy, floats(d) * sizeof(float));
			kernel_relu_backward(floats(d), d->y, d[-1].dy);
			break;
		}
	}
}

static const float *forward(struct engine *e, int n)
{
	struct onednn *o = own(e);

	(void)n; /* the primitives are made for whole batches; rows beyond n are nobody's */
	forward_all(o, NULL);
	return o->nodes[o->n - 1].y;
}

static void update(struct onednn *o, const struct step *s, struct step_result *ret)
{
	size_t k = 0;

	for (size_t i = 0; i < o->n; i++)
		if (layer_has_params(o->nodes[i].layer))
			o->parts[k++].l2 = o->nodes[i].layer->decay ? s->l2 : 0;
	kernel_sgd(o->parts, o->n_parts, o->param, o->velocity, o->grad, s->lr, s->momentum, &ret->penalty,
		&ret->norm2);
}

static void step(struct engine *e, const uint8_t *labels, const struct step *s, struct step_result *ret)
{
	struct onednn *o = own(e);
	struct node *last = &o->nodes[o->n - 1];

	forward_all(o, s);
	ret->cross_entropy = op_softmax_loss(e->batch, last->layer->out.dim[0], last->y, labels, last->dy,
		&ret->wrong);
	backward_all(o);
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
