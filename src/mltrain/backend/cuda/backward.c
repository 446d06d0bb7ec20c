#include "backend/cuda/libraries/conv_dnn.h"

#include "backend/cuda/engine.h"
#include "backend/cuda/libraries/gemm_lt.h"

/* A node's backward pass, for the functions below. */
struct back {
	struct cuda *c;
	int i;
	const struct node *n;
	struct node_memory *m;
	const struct kernel_source *from;
	const void *x, *y;
	void *dx; /* NULL: nobody wants it */
	void *dy; /* of what stands before a maximum that was taken in, once undone */
	int add;  /* dx holds others' gradients: add to them */
};

/* Where a kernel that can't add writes, and then the sum. */
static void *place_of(const struct back *b)
{
	return b->add ? b->m->temp : b->dx;
}

static int add_up(const struct back *b, struct mlr_error *err)
{
	if (b->add)
		CU_TRY(kernel_add(cuda_count(b->c, b->n->x), b->c->dtype, b->dx, b->m->temp, 0,
			b->dx, b->c->stream));
	return 0;
}

/* --- what was taken in: dropout, ReLU, maxima --- */

static int undo_after(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct node *n = b->n;
	size_t count = cuda_count(c, n->y);

	if (!c->nodes.tensor[n->y].masked && n->kind != LAYER_BATCHNORM) {
		if (n->dropout >= 0) {
			struct kernel_dropout d = cuda_dropout(c, n, n->dropout);

			CU_TRY(kernel_dropout(&d, c->dtype, b->dy, b->dy, c->stream));
		}
		if (n->relu)
			CU_TRY(kernel_relu_backward(
				count, c->dtype, b->y, b->dy, b->dy, c->stream));
	}
	if (!n->pool || n->few)
		return 0;
	if (product_is_own(&c->product[b->i], PRODUCT_FORWARD))
		CU_TRY(kernel_unpool(
			&n->window, c->dtype, b->dy, b->m->winners, b->m->full, c->stream));
	else
		CU_TRY(kernel_maxpool_backward(
			&n->window, c->dtype, b->dy, b->m->winners, b->m->full, c->stream));
	b->dy = b->m->full;
	return 0;
}

/* --- convolutions and dense layers --- */

/* Tasks of this node's data gradient for the layer that made x. */
static struct kernel_before before_of(const struct cuda *c, int tensor)
{
	const struct tensor_use *x = &c->nodes.tensor[tensor];
	struct kernel_before before = { 0 };

	if (x->masked) {
		const struct node *maker = &c->nodes.node[x->producer];

		before.relu_of = c->tensor[tensor].y;
		if (maker->dropout >= 0)
			before.scale = 1 / (1 - maker->rate);
	}
	return before;
}

static int library_weights(struct back *b, cudaStream_t stream, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct product *p = &c->product[b->i];
	float *dw = b->m->partial, *db = dw + b->n->weights;

	if (p->lt[PRODUCT_WEIGHTS])
		return gemm_lt_run(p->lt[PRODUCT_WEIGHTS], b->x, b->dy, dw,
			b->n->biases ? db : NULL, c->workspace, stream, err);
	return conv_dnn_run(
		p->dnn[PRODUCT_WEIGHTS], (void *)b->x, dw, NULL, b->dy, c->workspace, stream, err);
}

/* A library's data gradient, and behind it what our kernel would have done on the way. */
static int library_data(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct product *p = &c->product[b->i];
	const struct tensor_use *x = &c->nodes.tensor[b->n->x];
	const void *w = cuda_weights(c, b->n);

	if (p->lt[PRODUCT_DATA])
		TRY(gemm_lt_run(p->lt[PRODUCT_DATA], b->dy, w, place_of(b), NULL, c->workspace,
			c->stream, err));
	else
		TRY(conv_dnn_run(p->dnn[PRODUCT_DATA], place_of(b), (void *)w, NULL, b->dy,
			c->workspace, c->stream, err));
	TRY(add_up(b, err));
	if (!x->masked)
		return 0;
	if (c->nodes.node[x->producer].dropout >= 0) {
		const struct node *maker = &c->nodes.node[x->producer];
		struct kernel_dropout d = cuda_dropout(c, maker, maker->dropout);

		CU_TRY(kernel_dropout(&d, c->dtype, b->dx, b->dx, c->stream));
	}
	CU_TRY(kernel_relu_backward(
		cuda_count(c, b->n->x), c->dtype, b->x, b->dx, b->dx, c->stream));
	return 0;
}

/* Does a library put the product on the stream? One that fails is given up. */
static int library_does(struct back *b, enum product_what what, cudaStream_t stream)
{
	struct product *p = &b->c->product[b->i];
	struct mlr_error why = MLR_ERROR_INIT;
	int r;

	if (product_is_own(p, what))
		return 0;
	r = what == PRODUCT_WEIGHTS ? library_weights(b, stream, &why) : library_data(b, &why);
	if (r < 0)
		product_give_up(b->n, what, &why, p);
	return r == 0;
}

static int weights_backward(struct back *b, cudaStream_t stream, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct node *n = b->n;

	if (n->few)
		CU_TRY(kernel_few_backward_weights(&n->conv, c->dtype, b->from, b->dy,
			n->pool ? b->m->winners : NULL, b->m->splits, b->m->stride, b->m->partial,
			stream));
	else if (!library_does(b, PRODUCT_WEIGHTS, stream))
		CU_TRY(kernel_conv_backward_weights(&n->conv, c->dtype, b->x, b->dy, b->m->splits,
			b->m->stride, n->biases > 0, b->m->partial, stream));
	return reduce_gradients(c, b->i, stream, err);
}

static int data_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	struct kernel_before before = before_of(c, b->n->x);
	struct kernel_scratch scratch = { b->m->scratch, c->tickets };

	if (!b->dx)
		return 0;
	if (library_does(b, PRODUCT_DATA, c->stream))
		return 0;
	before.accumulate = b->add;
	CU_TRY(kernel_conv_backward_data(&b->n->conv, c->dtype, b->dy, cuda_weights(c, b->n),
		&before, b->dx, &scratch, c->stream));
	return 0;
}

/* The gradient of the weights goes beside that of the data, which the layers before wait for. */
static int product_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;

	if (!c->forks) {
		TRY(weights_backward(b, c->stream, err));
		return data_backward(b, err);
	}
	CU_TRY(cudaEventRecord(c->fork, c->stream));
	CU_TRY(cudaStreamWaitEvent(c->side, c->fork, 0));
	TRY(weights_backward(b, c->side, err));
	return data_backward(b, err);
}

/* --- other layers --- */

static int norm_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	struct node_memory *m = b->m;
	struct kernel_norm d = cuda_norm(c, b->n);
	const float *gamma = c->param + b->n->at;
	float *dgamma = m->partial;
	void *dx = b->dx && !b->add ? b->dx : m->temp;
	const double *sums;

	CU_TRY(kernel_norm_sums(&d, c->dtype, b->x, b->dy, d.relu ? b->y : NULL, m->saved,
		m->norm_partial, m->local, c->tickets + TICKET_NORM, c->stream));
	TRY(reduce_statistics(c, m, 2 * (size_t)d.c, &sums, err));
	CU_TRY(kernel_norm_backward(&d, c->dtype, b->x, b->dy, d.relu ? b->y : NULL, sums, m->local,
		gamma, m->saved, dgamma, dgamma + d.c, dx, c->stream));
	TRY(reduce_gradients(c, b->i, c->stream, err));
	return b->dx ? add_up(b, err) : 0;
}

/* Each of the two that were added gets the sum's gradient. */
static int give(struct back *b, int tensor, int adds, struct mlr_error *err)
{
	struct cuda *c = b->c;
	size_t count = cuda_count(c, tensor);
	void *dx = c->tensor[tensor].dy;

	if (!c->nodes.tensor[tensor].needs)
		return 0;
	if (adds)
		CU_TRY(kernel_add(count, c->dtype, dx, b->dy, 0, dx, c->stream));
	else
		CU_TRY(cudaMemcpyAsync(dx, b->dy, count * kernel_size(c->dtype),
			cudaMemcpyDeviceToDevice, c->stream));
	return 0;
}

/* Layers without parameters and with one input. */
static int plain_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct node *n = b->n;
	void *dx = place_of(b);
	struct kernel_dropout d;

	if (!b->dx)
		return 0;
	switch (n->kind) {
	case LAYER_RELU:
		CU_TRY(kernel_relu_backward(
			cuda_count(c, n->y), c->dtype, b->y, b->dy, dx, c->stream));
		break;
	case LAYER_DROPOUT:
		d = cuda_dropout(c, n, n->index);
		CU_TRY(kernel_dropout(&d, c->dtype, b->dy, dx, c->stream));
		break;
	case LAYER_MAXPOOL:
		CU_TRY(kernel_maxpool_backward(
			&n->window, c->dtype, b->dy, b->m->winners, dx, c->stream));
		break;
	case LAYER_AVGPOOL:
		CU_TRY(kernel_avgpool_backward(&n->window, c->dtype, b->dy, dx, c->stream));
		break;
	case LAYER_GLOBALPOOL:
		CU_TRY(kernel_globalpool_backward(c->engine.batch, n->pixels,
			c->nodes.tensor[n->x].c, c->dtype, b->dy, dx, c->stream));
		break;
	default:
		return mlr_fail(err, ENOTSUP, "no gradient");
	}
	return add_up(b, err);
}

static int node_backward(
	struct cuda *c, int i, const struct kernel_source *from, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	struct back b = { .c = c,
		.i = i,
		.n = n,
		.m = &c->node[i],
		.from = from,
		.x = c->tensor[n->x].y,
		.y = c->tensor[n->y].y,
		.dy = c->tensor[n->y].dy };

	if (!c->nodes.tensor[n->y].needs)
		return 0;
	TRY(undo_after(&b, err));
	if (n->kind == LAYER_ADD) {
		TRY(give(&b, n->x, n->adds, err));
		return give(&b, n->with, n->with_adds, err);
	}
	if (c->nodes.tensor[n->x].needs) {
		b.dx = c->tensor[n->x].dy;
		b.add = n->adds;
	}
	if (n->kind == LAYER_CONV || n->kind == LAYER_DENSE)
		return product_backward(&b, err);
	if (n->kind == LAYER_BATCHNORM)
		return norm_backward(&b, err);
	return plain_backward(&b, err);
}

/* --- the loss and the update --- */

static struct kernel_loss loss_of(const struct cuda *c)
{
	return (struct kernel_loss){ .rows = c->engine.batch,
		.classes = c->classes,
		.all_rows = c->all_rows,
		.labels = c->there.labels,
		.now = c->there.now,
		.result = c->result,
		.partial = c->loss_partial,
		.ticket = c->tickets + TICKET_LOSS };
}

/* The last layer forward, the loss, and that layer backward. */
static int head(struct cuda *c, struct mlr_error *err)
{
	int i = c->nodes.n - 1;
	const struct node *n = &c->nodes.node[i];
	const struct node_memory *m = &c->node[i];
	struct kernel_loss d = loss_of(c);
	struct kernel_before before = before_of(c, n->x);

	CU_TRY(kernel_head(&d, c->dtype, n->conv.c, c->tensor[n->x].y, c->param + n->at,
		cuda_biases(c, n), &before, c->tensor[n->x].dy, m->splits, m->stride, m->partial,
		NULL, c->stream));
	return reduce_gradients(c, i, c->stream, err);
}

static int update(struct cuda *c, struct mlr_error *err)
{
	struct kernel_update d = { .rule = (enum kernel_rule)c->optimiser,
		.parts = c->parts,
		.n = c->part_count,
		.elements = c->params,
		.params = c->param,
		.moment = c->moment,
		.square = c->square,
		.copy = c->copy,
		.step = c->there.step,
		.result = c->result,
		.now = c->there.now,
		.partial = c->update_partial,
		.ticket = c->tickets + TICKET_UPDATE };

	CU_TRY(kernel_update(&d, c->stream));
	return 0;
}

int cuda_backward(struct cuda *c, const struct kernel_source *from, struct mlr_error *err)
{
	int last = c->nodes.n - 1;

	if (c->head) {
		TRY(head(c, err));
		last--;
	} else {
		struct kernel_loss d = loss_of(c);
		const struct tensor_memory *logits = &c->tensor[c->nodes.node[last].y];

		CU_TRY(kernel_loss(&d, c->dtype, logits->y, logits->dy, c->stream));
	}
	for (int i = last; i >= 0; i--) {
		int r = node_backward(c, i, from, err);

		if (r < 0)
			return mlr_wrap(err, "layer '%s', backward", c->nodes.node[i].layer->name);
	}
	TRY(reduce_finish(c, err));
	if (c->forks) {
		CU_TRY(cudaEventRecord(c->join, c->side));
		CU_TRY(cudaStreamWaitEvent(c->stream, c->join, 0));
	}
	return update(c, err);
}

int cuda_parts_set(struct cuda *c, struct mlr_error *err)
{
	struct kernel_part parts[KERNEL_PARTS_MAX];

	c->part_count = 0;
	for (int i = 0; i < c->nodes.n; i++) {
		const struct node *n = &c->nodes.node[i];
		const struct node_memory *m = &c->node[i];
		int summed = c->reduce != NULL;

		if (!n->weights)
			continue;
		if (c->part_count == KERNEL_PARTS_MAX)
			return mlr_fail(err, ENOTSUP,
				"backend cuda: more than %d layers with parameters",
				KERNEL_PARTS_MAX);
		parts[c->part_count++] = (struct kernel_part){ .at = n->at,
			.count = n->weights + n->biases,
			.grad = summed ? c->grad + n->at : m->partial,
			.splits = summed ? 1 : m->splits,
			.decay = n->layer->decay,
			.stride = summed ? n->weights + n->biases : m->stride };
	}
	CU_TRY(cudaMemcpyAsync(c->parts, parts, (size_t)c->part_count * sizeof(*parts),
		cudaMemcpyHostToDevice, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	return 0;
}
