#include "backend/cuda/engine.h"

#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/gemm_lt.h"

/* A node's backward pass, for the functions below. */
struct back {
	struct cuda *c;
	int i;
	const struct node *n;
	struct node_memory *m;
	void *x;
	const void *y;
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
	float scale = n->dropout >= 0 ? 1 / (1 - n->rate) : 1;

	if (n->relu && n->kind != LAYER_BATCHNORM)
		CU_TRY(kernel_relu_backward(count, c->dtype, b->y, b->dy, scale, b->dy, c->stream));
	if (!n->pool)
		return 0;
	CU_TRY(kernel_maxpool_backward(
		&n->window, c->dtype, b->dy, b->m->winners, b->m->full, c->stream));
	b->dy = b->m->full;
	return 0;
}

/* --- convolutions and dense layers --- */

/* cuDNN's gradient of weights is of the dtype, and it has no sum for biases. */
static int conv_weights(struct back *b, float *dw, float *db, struct mlr_error *err)
{
	struct cuda *c = b->c;
	struct kernel_norm shape = cuda_channels(c, b->n);
	void *to = b->m->dw ? b->m->dw : dw;

	TRY(conv_dnn_run(c->product[b->i].dnn[PRODUCT_WEIGHTS], b->x, to, NULL, b->dy, c->workspace,
		c->stream, err));
	if (b->m->dw)
		CU_TRY(kernel_to_float(b->n->weights, c->dtype, to, dw, c->stream));
	if (b->n->biases)
		CU_TRY(kernel_channel_sums(&shape, c->dtype, b->dy, b->m->partial, db,
			c->tickets + TICKET_SUMS, c->stream));
	return 0;
}

static int product_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	const struct node *n = b->n;
	const struct product *p = &c->product[b->i];
	float *dw = c->grad + n->at, *db = dw + n->bias_at;

	if (n->kind == LAYER_DENSE)
		TRY(gemm_lt_run(
			p->lt[PRODUCT_WEIGHTS], b->x, b->dy, dw, db, c->workspace, c->stream, err));
	else
		TRY(conv_weights(b, dw, db, err));
	TRY(reduce_gradients(c, b->i, err));
	if (!b->dx)
		return 0;
	if (n->kind == LAYER_DENSE)
		TRY(gemm_lt_run(p->lt[PRODUCT_DATA], b->dy, cuda_weights(c, n), place_of(b), NULL,
			c->workspace, c->stream, err));
	else
		TRY(conv_dnn_run(p->dnn[PRODUCT_DATA], place_of(b), cuda_weights(c, n), NULL, b->dy,
			c->workspace, c->stream, err));
	return add_up(b, err);
}

/* --- other layers --- */

static int norm_backward(struct back *b, struct mlr_error *err)
{
	struct cuda *c = b->c;
	struct node_memory *m = b->m;
	struct kernel_norm d = cuda_norm(c, b->n);
	const float *gamma = c->param + b->n->at;
	float *dgamma = c->grad + b->n->at, *dbeta = dgamma + b->n->bias_at;
	void *dx = b->dx && !b->add ? b->dx : m->temp;
	const double *sums;

	CU_TRY(kernel_norm_sums(&d, c->dtype, b->x, b->dy, d.relu ? b->y : NULL, m->saved,
		m->partial, m->local, c->tickets + TICKET_SUMS, c->stream));
	TRY(reduce_statistics(c, m, 2 * (size_t)d.c, &sums, err));
	CU_TRY(kernel_norm_backward(&d, c->dtype, b->x, b->dy, d.relu ? b->y : NULL, sums, m->local,
		gamma, m->saved, dgamma, dbeta, dx, c->stream));
	TRY(reduce_gradients(c, b->i, err));
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
			cuda_count(c, n->y), c->dtype, b->y, b->dy, 1, dx, c->stream));
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

static int node_backward(struct cuda *c, int i, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	struct back b = { .c = c,
		.i = i,
		.n = n,
		.m = &c->node[i],
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

static int loss(struct cuda *c, struct mlr_error *err)
{
	const struct tensor_memory *logits = &c->tensor[c->nodes.node[c->nodes.n - 1].y];
	struct kernel_loss d = { .rows = c->engine.batch,
		.classes = c->classes,
		.all_rows = c->all_rows,
		.labels = c->there.labels,
		.now = c->there.now,
		.result = c->result,
		.partial = c->loss_partial,
		.ticket = c->tickets + TICKET_LOSS };

	CU_TRY(kernel_loss(&d, c->dtype, logits->y, logits->dy, c->stream));
	return 0;
}

static int update(struct cuda *c, struct mlr_error *err)
{
	struct kernel_update d = { .rule = (enum kernel_rule)c->optimiser,
		.parts = c->parts,
		.n = c->part_count,
		.elements = c->nodes.elements,
		.grad = c->grad,
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

int cuda_backward(struct cuda *c, struct mlr_error *err)
{
	TRY(loss(c, err));
	for (int i = c->nodes.n - 1; i >= 0; i--) {
		int r = node_backward(c, i, err);

		if (r < 0)
			return mlr_wrap(err, "layer '%s', backward", c->nodes.node[i].layer->name);
	}
	TRY(reduce_finish(c, err));
	return update(c, err);
}

int cuda_parts_set(struct cuda *c, struct mlr_error *err)
{
	struct kernel_part parts[KERNEL_PARTS_MAX];

	c->part_count = 0;
	for (int i = 0; i < c->nodes.n; i++) {
		const struct node *n = &c->nodes.node[i];

		if (!n->weights)
			continue;
		if (c->part_count == KERNEL_PARTS_MAX)
			return mlr_fail(err, ENOTSUP,
				"backend cuda: more than %d layers with parameters",
				KERNEL_PARTS_MAX);
		parts[c->part_count++] = (struct kernel_part){ n->at, n->count, n->layer->decay };
	}
	CU_TRY(cudaMemcpyAsync(c->parts, parts, (size_t)c->part_count * sizeof(*parts),
		cudaMemcpyHostToDevice, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	return 0;
}
