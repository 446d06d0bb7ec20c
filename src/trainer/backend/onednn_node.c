#include "trainer/backend/onednn_node.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "trainer/tensor/rng.h"

#include <errno.h>
#include <string.h>

#define ALIGN       64 /* bytes: a cache line and a vector */
#define PARAM_ALIGN (ALIGN / sizeof(float))

/* A shape of one image as that of a batch. */
static int batch_dims(int batch, const struct shape *s, int dims[4])
{
	dims[0] = batch;
	for (int i = 0; i < s->rank; i++)
		dims[i + 1] = s->dim[i];
	return s->rank + 1;
}

struct dnn_format node_plain_format(int batch, const struct shape *s)
{
	int dims[4] = { 0 }, rank = batch_dims(batch, s, dims);

	return dnn_format_plain(rank, dims);
}

/* The dimensions of a layer's weights as oneDNN sees them: a dense layer behind an image reads it
 * as an image, in any format, which saves the flattening. */
static int weight_dims(const struct layer *l, int dims[4])
{
	if (l->kind == LAYER_CONV) {
		memcpy(dims, (int[]){ l->outputs, l->in.dim[0], l->size, l->size },
			4 * sizeof(int));
		return 4;
	}
	return batch_dims(l->outputs, &l->in, dims);
}

/* The layer with every format left open, but a dense layer's output, which is a row, and its input,
 * which it can mostly read as it lies. */
static struct dnn_layer open_layer(const struct node *d, int batch)
{
	const struct layer *l = d->layer;
	struct dnn_layer ret = { .is_conv = l->kind == LAYER_CONV,
		.stride = l->stride,
		.pad = l->pad,
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

static int reorder_if_needed(struct node_world *w, const struct dnn_format *from,
	const struct dnn_format *to, struct dnn_op *op, struct mlr_error *err)
{
	return dnn_format_same(from, to) ? 0 : dnn_reorder(&w->dnn, from, to, op, err);
}

/* A dense layer whose input as it lies would be read by oneDNN's slow general code gets it in the
 * format that oneDNN likes. */
static int make_forward(
	struct node_world *w, struct node *d, struct dnn_layer *l, struct mlr_error *err)
{
	int dims[4] = { 0 }, rank = batch_dims(w->batch, &d->layer->in, dims);
	int r = dnn_forward(&w->dnn, l, &d->forward, err);

	if (l->is_conv || (r < 0 && r != -ENOTSUP) ||
		(r == 0 && strncmp(dnn_op_name(&d->forward), "ref", 3) != 0))
		return r;
	dnn_op_done(&d->forward);
	l->src = dnn_format_any(rank, dims);
	return dnn_forward(&w->dnn, l, &d->forward, err);
}

/* Make the three directions of a layer and the reorders between formats that differ. */
static int make_layer(struct node_world *w, struct node *d, struct mlr_error *err)
{
	struct dnn_layer l = open_layer(d, w->batch);
	struct dnn_format f;
	int dims[4] = { 0 }, rank = weight_dims(d->layer, dims), r;

	r = make_forward(w, d, &l, err);
	if (r < 0)
		return r;
	d->src = l.src = dnn_op_format(&d->forward, DNNL_ARG_SRC);
	d->format = l.dst = dnn_op_format(&d->forward, DNNL_ARG_DST);
	d->weights = dnn_op_format(&d->forward, DNNL_ARG_WEIGHTS);
	f = dnn_format_plain(rank, dims);
	if ((r = reorder_if_needed(w, &d->in, &d->src, &d->in_to_src, err)) < 0 ||
		(r = dnn_reorder(&w->dnn, &f, &d->weights, &d->plain_to_weights, err)) < 0 ||
		(r = dnn_reorder(&w->dnn, &d->weights, &f, &d->weights_to_plain, err)) < 0 ||
		(r = dnn_backward_weights(&w->dnn, &l, &d->forward, &d->to_weights, err)) < 0)
		return r;
	f = dnn_op_format(&d->to_weights, DNNL_ARG_DIFF_WEIGHTS);
	r = reorder_if_needed(w, &f, &d->weights, &d->dw_to_grad, err);
	if (r < 0 || d->first)
		return r;

	/* A dense layer's weights are large: reading them as they lie beats a faster format of
	 * their own. */
	if (!l.is_conv)
		l.weights = d->weights;
	r = dnn_backward_data(&w->dnn, &l, &d->forward, &d->to_data, err);
	if (r < 0)
		return r;
	f = dnn_op_format(&d->to_data, DNNL_ARG_WEIGHTS);
	r = reorder_if_needed(w, &d->weights, &f, &d->weights_to_data, err);
	return r < 0 ? r : reorder_if_needed(w, &d->src, &d->in, &d->dsrc_to_din, err);
}

/* Can this convolution go by winograd.h, in the format that its input has? */
static int is_fast(struct node_world *w, struct node *d)
{
	const struct layer *l = d->layer;

	return l->kind == LAYER_CONV && dnn_format_block(&d->in) == 16 &&
		winograd_fits(&d->wino, w->batch, l->in.dim[0], l->outputs, l->in.dim[1],
			l->in.dim[2], l->size, l->stride, l->pad);
}

static int make_fast(struct node_world *w, struct node *d, struct mlr_error *err)
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
	if ((r = dnn_reorder(&w->dnn, &plain, &d->weights, &d->plain_to_weights, err)) < 0 ||
		(r = dnn_reorder(&w->dnn, &d->weights, &plain, &d->weights_to_plain, err)) < 0 ||
		(r = dnn_multiply(&w->dnn, &times_u, &d->times_u, err)) < 0 ||
		(r = dnn_multiply(&w->dnn, &to_du, &d->to_du, err)) < 0)
		return r;
	return d->first ? 0 : dnn_multiply(&w->dnn, &to_dv, &d->to_dv, err);
}

static void place_params(struct node_world *w, struct node *d)
{
	size_t weights = dnn_format_size(&d->weights) / sizeof(float);

	d->at = w->params;
	d->bias_at = d->at + weights;
	d->count = (weights + d->layer->biases + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
	w->params += d->count;
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
		mlr_debug("layer '%s': Winograd, forward %s, backward data %s, weights %s",
			d->layer->name, dnn_op_name(&d->times_u),
			d->first ? "-" : dnn_op_name(&d->to_dv), dnn_op_name(&d->to_du));
	else
		mlr_debug("layer '%s': forward %s, backward data %s, weights %s%s%s%s%s",
			d->layer->name, dnn_op_name(&d->forward),
			d->first ? "-" : dnn_op_name(&d->to_data), dnn_op_name(&d->to_weights),
			d->in_to_src.n ? ", reorders input" : "",
			d->dsrc_to_din.n ? ", reorders input's gradient" : "",
			d->weights_to_data.n ? ", reorders weights" : "",
			d->dw_to_grad.n ? ", reorders weights' gradient" : "");
}

int node_make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct dnn_format plain;
	int r = 0;

	switch (d->layer->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		r = is_fast(w, d) ? make_fast(w, d, err) : make_layer(w, d, err);
		if (r < 0)
			break;
		place_params(w, d);
		describe(d);
		break;
	case LAYER_MAXPOOL:
		r = make_pool(d, err);
		break;
	case LAYER_DROPOUT:
		d->format = d->in;
		plain = node_plain_format(w->batch, &d->layer->in);
		r = reorder_if_needed(w, &plain, &d->format, &d->plain_to_mask, err);
		break;
	case LAYER_RELU:
		d->format = d->in;
		break;
	}
	return r < 0 ? mlr_wrap(err, "layer '%s'", d->layer->name) : 0;
}

void node_done(struct node *d)
{
	struct dnn_op *ops[] = { &d->forward, &d->to_data, &d->to_weights, &d->in_to_src,
		&d->dsrc_to_din, &d->weights_to_data, &d->dw_to_grad, &d->plain_to_weights,
		&d->weights_to_plain, &d->plain_to_mask, &d->times_u, &d->to_dv, &d->to_du };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		dnn_op_done(ops[i]);
}

size_t node_scratch(const struct node *d)
{
	const struct dnn_op *ops[] = { &d->forward, &d->to_data, &d->to_weights, &d->times_u,
		&d->to_dv, &d->to_du };
	size_t most = 0;

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (dnn_op_scratch(ops[i]) > most)
			most = dnn_op_scratch(ops[i]);
	return most;
}

void *plan_take(struct plan *p, size_t bytes)
{
	size_t at = p->used;

	p->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return p->block ? p->block + at : NULL;
}

static void *take_if(struct plan *p, const struct dnn_op *op, const struct dnn_format *f)
{
	return op->n ? plan_take(p, dnn_format_size(f)) : NULL;
}

void node_plan(struct node *d, const struct node_world *w, struct plan *p)
{
	struct dnn_format f;

	d->y = plan_take(p, dnn_format_size(&d->format));
	d->dy = d->pooled ? d->y : plan_take(p, dnn_format_size(&d->format));
	if (d->layer->kind == LAYER_DROPOUT) {
		d->mask = plan_take(p, dnn_format_size(&d->format));
		d->mask_plain = d->plain_to_mask.n ? plan_take(p, dnn_format_size(&d->format))
						   : d->mask;
	}
	if (d->fast) {
		d->v = plan_take(p, winograd_v(&d->wino) * sizeof(float));
		d->m = plan_take(p, winograd_m(&d->wino) * sizeof(float));
		d->u = plan_take(p, winograd_u(&d->wino) * sizeof(float));
		d->du = plan_take(p, winograd_u(&d->wino) * sizeof(float));
		d->partial = plan_take(p, (size_t)(w->threads * d->wino.k) * sizeof(float));
	}
	if (!layer_has_params(d->layer) || d->fast)
		return;
	d->src_copy = take_if(p, &d->in_to_src, &d->src);
	d->dsrc = take_if(p, &d->dsrc_to_din, &d->src);
	f = dnn_op_format(&d->to_weights, DNNL_ARG_DIFF_WEIGHTS);
	d->dw = take_if(p, &d->dw_to_grad, &f);
	if (d->weights_to_data.n) {
		f = dnn_op_format(&d->to_data, DNNL_ARG_WEIGHTS);
		d->data_weights = plan_take(p, dnn_format_size(&f));
	}
}

static int bind(struct node_world *w, struct dnn_op *op, const int *args, void *const *data, int n,
	struct mlr_error *err)
{
	for (int i = 0; i < n; i++) {
		int r = dnn_op_bind(&w->dnn, op, args[i], data[i], err);

		if (r < 0)
			return r;
	}
	return dnn_op_scratch(op) ? dnn_op_bind(&w->dnn, op, DNNL_ARG_SCRATCHPAD, w->scratch, err)
				  : 0;
}

static void point(struct dnn_op *op, const void *from, void *to)
{
	if (!op->n)
		return;
	dnn_op_point(op, DNNL_ARG_FROM, from);
	dnn_op_point(op, DNNL_ARG_TO, to);
}

static int bind_layer(struct node_world *w, struct node *d, struct mlr_error *err)
{
	static const int forward[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
		DNNL_ARG_DST };
	static const int to_weights[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
		DNNL_ARG_DIFF_BIAS };
	static const int data[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	float *weights = w->param + d->at, *dw = w->grad + d->at;
	float *x = d->first ? w->input : d[-1].y, *dx = d->first ? NULL : d[-1].dy;
	float *src = d->src_copy ? d->src_copy : x, *dsrc = d->dsrc ? d->dsrc : dx;
	int r;

	point(&d->in_to_src, x, d->src_copy);
	point(&d->dsrc_to_din, d->dsrc, dx);
	point(&d->weights_to_data, weights, d->data_weights);
	point(&d->dw_to_grad, d->dw, dw);
	if ((r = bind(w, &d->forward, forward,
		     (void *[]){ src, weights, w->param + d->bias_at, d->y }, 4, err)) < 0 ||
		(r = bind(w, &d->to_weights, to_weights,
			 (void *[]){ src, d->dy, d->dw ? d->dw : dw, w->grad + d->bias_at }, 4,
			 err)) < 0)
		return r;
	if (d->first)
		return 0;
	return bind(w, &d->to_data, data,
		(void *[]){ d->dy, d->data_weights ? d->data_weights : weights, dsrc }, 3, err);
}

static int bind_fast(struct node_world *w, struct node *d, struct mlr_error *err)
{
	static const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	int r;

	if ((r = bind(w, &d->times_u, args, (void *[]){ d->v, d->u, d->m }, 3, err)) < 0 ||
		(r = bind(w, &d->to_du, args, (void *[]){ d->v, d->m, d->du }, 3, err)) < 0)
		return r;
	return d->first ? 0 : bind(w, &d->to_dv, args, (void *[]){ d->m, d->u, d->v }, 3, err);
}

int node_bind(struct node *d, struct node_world *w, struct mlr_error *err)
{
	int r = 0;

	if (d->fast)
		r = bind_fast(w, d, err);
	else if (layer_has_params(d->layer))
		r = bind_layer(w, d, err);
	point(&d->plain_to_mask, d->mask_plain, d->mask);
	return r < 0 ? mlr_wrap(err, "layer '%s'", d->layer->name) : 0;
}

static size_t floats(const struct node *d)
{
	return dnn_format_size(&d->format) / sizeof(float);
}

/* step is NULL when predicting. */
static void dropout_forward(
	struct node_world *w, struct node *d, const float *x, const struct step *step)
{
	struct rng rng;

	if (!step) {
		memcpy(d->y, x, floats(d) * sizeof(float));
		return;
	}
	rng_init(&rng, step->dropout_seed, RNG_DROPOUT, step->number << 16 | d->index);
	rng_dropout(&rng, d->layer->rate, d->mask_plain,
		(size_t)w->batch * shape_count(&d->layer->out));
	dnn_op_run(&w->dnn, &d->plain_to_mask);
	kernel_multiply(floats(d), x, d->mask, d->y);
}

static void fast_forward(struct node_world *w, struct node *d, const float *x)
{
	winograd_input(&d->wino, x, d->v);
	winograd_weights(&d->wino, w->param + d->at, d->u);
	dnn_op_run(&w->dnn, &d->times_u);
	winograd_output(&d->wino, d->m, w->param + d->bias_at, d->relu, d->y);
}

/* V, U and M are what forward left. */
static void fast_backward(struct node_world *w, struct node *d)
{
	winograd_output_back(&d->wino, d->dy, d->m, w->grad + d->bias_at, d->partial, w->threads);
	dnn_op_run(&w->dnn, &d->to_du);
	winograd_weights_back(&d->wino, d->du, w->grad + d->at);
	if (d->first)
		return;
	dnn_op_run(&w->dnn, &d->to_dv);
	winograd_input_back(&d->wino, d->v, d[-1].dy);
}

void node_forward(struct node *d, struct node_world *w, const struct step *step)
{
	const float *x = d->first ? w->input : d[-1].y;

	switch (d->layer->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		if (d->fast) {
			fast_forward(w, d, x);
			break;
		}
		dnn_op_run(&w->dnn, &d->in_to_src);
		dnn_op_run(&w->dnn, &d->forward);
		break;
	case LAYER_MAXPOOL:
		kernel_pool_forward(&d->pool, x, d->y);
		break;
	case LAYER_DROPOUT:
		dropout_forward(w, d, x, step);
		break;
	case LAYER_RELU:
		kernel_relu_forward(floats(d), x, d->y);
		break;
	}
}

static void layer_backward(struct node_world *w, struct node *d)
{
	if (d->fast) {
		fast_backward(w, d);
		return;
	}
	dnn_op_run(&w->dnn, &d->to_weights);
	dnn_op_run(&w->dnn, &d->dw_to_grad);
	if (d->first)
		return;
	dnn_op_run(&w->dnn, &d->weights_to_data);
	dnn_op_run(&w->dnn, &d->to_data);
	dnn_op_run(&w->dnn, &d->dsrc_to_din);
}

void node_backward(struct node *d, struct node_world *w)
{
	if (d->relu && !d->pooled) /* a pooling node behind has let it pass the ReLU already */
		kernel_relu_backward(floats(d), d->y, d->dy);
	if (layer_has_params(d->layer)) {
		layer_backward(w, d);
		return;
	}
	if (d->first)
		return;
	switch (d->layer->kind) {
	case LAYER_MAXPOOL:
		kernel_pool_backward(&d->pool, d[-1].relu, d->dy, d[-1].dy);
		break;
	case LAYER_DROPOUT:
		kernel_multiply(floats(d), d->dy, d->mask, d[-1].dy);
		break;
	default: /* a ReLU of its own */
		memcpy(d[-1].dy, d->dy, floats(d) * sizeof(float));
		break;
	}
}

void node_get(struct node *d, struct node_world *w, const float *block, float *params)
{
	if (!layer_has_params(d->layer))
		return;
	point(&d->weights_to_plain, block + d->at, params + d->layer->weight_at);
	dnn_op_run(&w->dnn, &d->weights_to_plain);
	memcpy(params + d->layer->bias_at, block + d->bias_at, d->layer->biases * sizeof(float));
}

void node_set(struct node *d, struct node_world *w, float *block, const float *params)
{
	if (!layer_has_params(d->layer))
		return;
	point(&d->plain_to_weights, params + d->layer->weight_at, block + d->at);
	dnn_op_run(&w->dnn, &d->plain_to_weights);
	memcpy(block + d->bias_at, params + d->layer->bias_at, d->layer->biases * sizeof(float));
}
