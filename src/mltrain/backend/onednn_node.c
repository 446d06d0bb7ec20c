#include "backend/onednn_node.h"

#define ALIGN       64 /* bytes: a cache line and a vector */
#define PARAM_ALIGN (ALIGN / sizeof(float))

int node_batch_dims(int batch, const struct shape *s, int dims[4])
{
	dims[0] = batch;
	for (int i = 0; i < s->rank; i++)
		dims[i + 1] = s->dim[i];
	return s->rank + 1;
}

struct dnn_format node_plain_format(const struct node_world *w, const struct shape *s)
{
	int dims[4] = { 0 }, rank = node_batch_dims(w->batch, s, dims);

	return dnn_format_typed(dnn_format_plain(rank, dims), w->bf16);
}

int node_weight_dims(const struct layer *l, int dims[4])
{
	if (l->kind == LAYER_CONV) {
		memcpy(dims, (int[]){ l->outputs, l->in.dim[0], l->size, l->size },
			4 * sizeof(int));
		return 4;
	}
	if (l->kind == LAYER_BATCHNORM) {
		dims[0] = l->in.dim[0];
		return 1;
	}
	return node_batch_dims(l->outputs, &l->in, dims);
}

void *node_x(const struct node *d, const struct node_world *w, int input)
{
	return d->from[input] ? d->from[input]->y : w->input;
}

struct dnn_format node_in(const struct node *d, const struct node_world *w, int input)
{
	return d->from[input] ? d->from[input]->format : node_plain_format(w, &d->layer->in);
}

void *node_dx(const struct node *d, const struct node_world *w, int input)
{
	const struct node *from = d->from[input];

	if (!from || !from->learns)
		return NULL;
	return d->adds[input] ? w->spare : from->dy;
}

size_t node_count(const struct node *d)
{
	return dnn_format_size(&d->format) / (d->image.bf16 ? 2 : 4);
}

size_t node_rows(const struct node *d, const struct node_world *w)
{
	return node_count(d) / (size_t)w->batch * (size_t)w->rows;
}

int node_reorder(struct node_world *w, const struct dnn_format *from, const struct dnn_format *to,
	struct dnn_op *op, struct mlr_error *err)
{
	return dnn_format_same(from, to) ? 0 : dnn_reorder(&w->dnn, from, to, op, err);
}

void node_point(struct dnn_op *op, const void *from, void *to)
{
	if (!op->n)
		return;
	dnn_op_point(op, DNNL_ARG_FROM, from);
	dnn_op_point(op, DNNL_ARG_TO, to);
}

void *node_plan_take(struct plan *p, size_t bytes)
{
	size_t at = p->used;

	p->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return p->block ? p->block + at : NULL;
}

void *node_plan_take_if(struct plan *p, const struct dnn_op *op, const struct dnn_format *f)
{
	return op->n ? node_plan_take(p, dnn_format_size(f)) : NULL;
}

int node_bind_op(struct node_world *w, struct dnn_op *op, const int *args, void *const *data, int n,
	struct mlr_error *err)
{
	for (int i = 0; i < n; i++)
		TRY(data[i] ? dnn_op_bind(&w->dnn, op, args[i], data[i], err) : 0);
	return dnn_op_scratch(op) ? dnn_op_bind(&w->dnn, op, DNNL_ARG_SCRATCHPAD, w->scratch, err)
				  : 0;
}

/* Kernels of 3x3 save less: few channels do not make up for the transforms, nor do predictions in
 * bf16, for which oneDNN's products take half the time and winograd.h's don't. */
static int winograd_pays(const struct winograd *g, const struct node_world *w)
{
	return g->size == 5 || (g->c >= 64 && g->k >= 64 && (w->trains || !w->bf16));
}

/* The way by winograd.h needs its input in blocks of 16 channels. */
static const struct node_kind *conv_kind(
	const struct graph_node *d, const struct node_world *w, int is_pooled)
{
	const struct layer *l = d->layer;
	const struct node *from = d->from[0] == GRAPH_IMAGES ? NULL : &w->nodes[d->from[0]];
	struct winograd g;
	struct imageconv m;

	if (!from && is_pooled && w->lanes &&
		imageconv_fits(&m, w->batch, l->in.dim[0], l->outputs, l->in.dim[1], l->in.dim[2],
			l->size, l->stride, l->pad, w->threads))
		return &node_kind_image;
	if (from && dnn_format_block(&from->format) == 16 && w->lanes &&
		winograd_fits(&g, w->batch, l->in.dim[0], l->outputs, l->in.dim[1], l->in.dim[2],
			l->size, l->stride, l->pad, w->threads) &&
		winograd_pays(&g, w))
		return &node_kind_wino;
	return &node_kind_layer;
}

static const struct node_kind *kind_of(const struct graph_node *d, const struct node_world *w)
{
	switch (d->layer->kind) {
	case LAYER_CONV:
		return conv_kind(d, w, d->pool != NULL);
	case LAYER_DENSE:
		return !w->trains && !w->bf16 && w->lanes ? &node_kind_dense : &node_kind_layer;
	case LAYER_RELU:
		return &node_kind_relu;
	case LAYER_MAXPOOL:
	case LAYER_AVGPOOL:
		return &node_kind_pool;
	case LAYER_GLOBALPOOL:
		return &node_kind_global;
	case LAYER_DROPOUT:
		return &node_kind_dropout;
	case LAYER_BATCHNORM:
		return &node_kind_norm;
	case LAYER_ADD:
		return &node_kind_sum;
	}
	return NULL;
}

int node_takes(void *ctx, const struct graph_node *d, const struct layer *next)
{
	const struct node_world *w = ctx;
	enum layer_kind kind = d->layer->kind;
	int multiplies = kind == LAYER_CONV || kind == LAYER_DENSE;

	switch (next->kind) {
	case LAYER_BATCHNORM:
		return !w->trains && multiplies && d->last == d->layer;
	case LAYER_RELU:
		return (multiplies || kind == LAYER_BATCHNORM || kind == LAYER_ADD) && !d->relu &&
			!d->pool;
	case LAYER_MAXPOOL:
		return kind == LAYER_CONV && !d->pool && next->size == 2 && next->stride == 2 &&
			conv_kind(d, w, 1)->pools;
	default:
		return 0;
	}
}

static void describe_image(struct node *d, const struct node_world *w)
{
	const struct shape *s = d->out;

	d->image = (struct kernel_image){ w->batch, s->dim[0], s->dim[1], s->dim[2], s->dim[0],
		w->bf16 && !d->last };
	if (s->rank == 3)
		d->image.block = dnn_format_block(&d->format);
}

static int place_params(struct node_world *w, struct node *d, struct mlr_error *err)
{
	size_t weights = dnn_format_size(&d->weights) / sizeof(float);
	int dims[4] = { 0 }, rank = node_weight_dims(d->layer, dims);
	struct dnn_format plain = dnn_format_plain(rank, dims);

	d->at = w->params;
	d->bias_at = d->at + weights;
	d->count = (weights + d->biases + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
	w->params += d->count;
	TRY(dnn_reorder(&w->dnn, &plain, &d->weights, &d->plain_to_weights, err));
	return dnn_reorder(&w->dnn, &d->weights, &plain, &d->weights_to_plain, err);
}

int node_make(
	struct node *d, const struct graph_node *plan, struct node_world *w, struct mlr_error *err)
{
	int r;

	*d = (struct node){ .layer = plan->layer,
		.norm_behind = plan->norm,
		.pool = plan->pool,
		.out = &plan->last->out,
		.kind = kind_of(plan, w),
		.index = (size_t)plan->index,
		.inputs = plan->inputs,
		.adds = { plan->adds[0], plan->adds[1] },
		.readers = plan->readers,
		.relu = plan->relu || plan->layer->kind == LAYER_RELU,
		.learns = w->trains && plan->learns,
		.last = plan->readers == 0,
		.biases = plan->norm ? (size_t)plan->layer->outputs : plan->layer->biases };
	for (int i = 0; i < d->inputs; i++) {
		if (plan->from[i] != GRAPH_IMAGES)
			d->from[i] = &w->nodes[plan->from[i]];
		w->input_is_read |= !d->from[i] && d->kind != &node_kind_image;
	}
	r = d->kind->make(d, w, err);
	if (r == 0 && layer_has_params(d->layer))
		r = place_params(w, d, err);
	if (r < 0)
		return mlr_wrap(err, "layer '%s'", d->layer->name);
	describe_image(d, w);
	if (d->image.block == 0)
		return mlr_fail(err, ENOTSUP,
			"layer '%s': oneDNN's format of its output is not known", d->layer->name);
	return 0;
}

void node_done(struct node *d)
{
	struct dnn_op *ops[] = { &d->ops.forward, &d->ops.to_data, &d->ops.to_weights,
		&d->ops.in_to_src, &d->ops.dsrc_to_din, &d->ops.param_to_weights,
		&d->ops.weights_to_data, &d->ops.dw_to_grad, &d->ops.dy_to_dst,
		&d->plain_to_weights, &d->weights_to_plain, &d->with_to_from, &d->from_to_with };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		dnn_op_done(ops[i]);
}

size_t node_scratch(const struct node *d, const struct node_world *w)
{
	const struct dnn_op *ops[] = { &d->ops.forward, &d->ops.to_data, &d->ops.to_weights };
	size_t most = d->kind->scratch ? d->kind->scratch(d, w) : 0;

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (dnn_op_scratch(ops[i]) > most)
			most = dnn_op_scratch(ops[i]);
	return most;
}

size_t node_spare(const struct node *d)
{
	size_t most = 0;

	for (int i = 0; i < d->inputs; i++)
		if (d->adds[i] && dnn_format_size(&d->from[i]->format) > most)
			most = dnn_format_size(&d->from[i]->format);
	return most;
}

void node_plan(struct node *d, const struct node_world *w, struct plan *p)
{
	if (w->trains || d->layer->kind != LAYER_DROPOUT)
		d->y = node_plan_take(p, dnn_format_size(&d->format));
	d->dy = d->pooled   ? d->y
		: d->learns ? node_plan_take(p, dnn_format_size(&d->format))
			    : NULL;
	if (d->kind->plan)
		d->kind->plan(d, w, p);
}

int node_bind(struct node *d, struct node_world *w, struct mlr_error *err)
{
	int r = d->kind->bind ? d->kind->bind(d, w, err) : 0;

	return r < 0 ? mlr_wrap(err, "layer '%s'", d->layer->name) : 0;
}

int node_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	if (!d->learns)
		return 0;
	/* A pooling node behind has let it pass the ReLU already. */
	if (d->relu && !d->pooled && !d->kind->lets_relu_pass)
		kernel_relu_backward(node_count(d), d->y, d->dy, d->image.bf16);
	TRY(d->kind->backward(d, w, err));
	for (int i = 0; i < d->inputs && !d->kind->adds_itself; i++)
		if (d->adds[i] && d->from[i]->learns)
			kernel_add(node_count(d->from[i]), d->from[i]->dy, w->spare, d->from[i]->dy,
				0, w->bf16);
	return 0;
}

void node_get(struct node *d, struct node_world *w, const float *block, float *params)
{
	if (!d->count)
		return;
	node_point(&d->weights_to_plain, block + d->at, params + d->layer->weight_at);
	dnn_op_run(&w->dnn, &d->weights_to_plain);
	memcpy(params + d->layer->bias_at, block + d->bias_at, d->layer->biases * sizeof(float));
}

void node_set(
	struct node *d, struct node_world *w, float *block, const float *weights, const float *bias)
{
	if (!d->count)
		return;
	node_point(&d->plain_to_weights, weights, block + d->at);
	dnn_op_run(&w->dnn, &d->plain_to_weights);
	memcpy(block + d->bias_at, bias, d->biases * sizeof(float));
}
