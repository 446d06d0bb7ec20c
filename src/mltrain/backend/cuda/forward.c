#include "backend/cuda/engine.h"

#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/gemm_lt.h"

struct kernel_source cuda_source(const struct cuda *c, const uint8_t *images, int altered)
{
	const struct shape *in = &c->layers[0].in;

	return (struct kernel_source){ .images = images,
		.index = c->there.index,
		.augment = altered ? c->there.augment : NULL,
		.now = c->there.now,
		.rows = c->engine.batch,
		.c = in->dim[0],
		.h = in->dim[1],
		.w = in->dim[2],
		.norm = c->norm };
}

struct kernel_norm cuda_norm(const struct cuda *c, const struct node *n)
{
	return (struct kernel_norm){ .rows = (size_t)c->engine.batch * (size_t)n->pixels,
		.c = c->nodes.tensor[n->x].c,
		.all_rows = c->all_rows * n->pixels,
		.epsilon = n->layer->epsilon,
		.momentum = n->layer->momentum,
		.relu = n->relu };
}

struct kernel_norm cuda_channels(const struct cuda *c, const struct node *n)
{
	const struct shape *y = &n->layer->out;

	return (struct kernel_norm){ .rows = (size_t)c->engine.batch * (size_t)y->dim[1] *
			(size_t)y->dim[2],
		.c = y->dim[0] };
}

struct kernel_dropout cuda_dropout(const struct cuda *c, const struct node *n, int layer)
{
	const struct tensor_use *y = &c->nodes.tensor[n->y];

	return (struct kernel_dropout){ .rows = c->engine.batch,
		.pixels = y->h * y->w,
		.c = y->c,
		.rate = n->rate,
		.layer = (uint32_t)layer,
		.first = c->first,
		.step = c->there.step,
		.now = c->there.now };
}

static int product_forward(struct cuda *c, int i, int train, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	const struct product *p = &c->product[i];
	void *x = c->tensor[n->x].y, *y = c->tensor[n->y].y, *out = n->pool ? c->node[i].full : y;

	if (n->kind == LAYER_DENSE)
		TRY(gemm_lt_run(p->lt[PRODUCT_FORWARD], x, cuda_weights(c, n), out,
			cuda_biases(c, n), c->workspace, c->stream, err));
	else
		TRY(conv_dnn_run(p->dnn[PRODUCT_FORWARD], x, cuda_weights(c, n), cuda_biases(c, n),
			out, c->workspace, c->stream, err));
	if (n->pool)
		CU_TRY(kernel_maxpool_forward(
			&n->window, c->dtype, out, y, c->node[i].winners, c->stream));
	if (n->relu && !product_does_relu(n)) /* which may as well come after maxima */
		CU_TRY(kernel_relu_forward(cuda_count(c, n->y), c->dtype, y, y, c->stream));
	if (train && n->dropout >= 0) {
		struct kernel_dropout d = cuda_dropout(c, n, n->dropout);

		CU_TRY(kernel_dropout(&d, c->dtype, y, y, c->stream));
	}
	return 0;
}

static int norm_forward(struct cuda *c, int i, int train, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	const struct node_memory *m = &c->node[i];
	struct kernel_norm d = cuda_norm(c, n);
	const void *x = c->tensor[n->x].y;
	void *y = c->tensor[n->y].y;
	const float *gamma = c->param + n->at, *beta = gamma + n->bias_at;
	float *running = c->state + n->state_at;
	const double *sums;

	if (!train) {
		CU_TRY(kernel_norm_predict(&d, c->dtype, x, running, gamma, beta, y, c->stream));
		return 0;
	}
	CU_TRY(kernel_norm_sums(&d, c->dtype, x, NULL, NULL, NULL, m->partial, m->local,
		c->tickets + TICKET_SUMS, c->stream));
	TRY(reduce_statistics(c, m, 2 * (size_t)d.c, &sums, err));
	CU_TRY(kernel_norm_forward(
		&d, c->dtype, x, sums, gamma, beta, m->saved, running, y, c->stream));
	return 0;
}

static int dropout_forward(struct cuda *c, int i, int train, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	struct kernel_dropout d = cuda_dropout(c, n, n->index);
	const void *x = c->tensor[n->x].y;
	void *y = c->tensor[n->y].y;

	if (train)
		CU_TRY(kernel_dropout(&d, c->dtype, x, y, c->stream));
	else
		CU_TRY(cudaMemcpyAsync(y, x, cuda_count(c, n->y) * kernel_size(c->dtype),
			cudaMemcpyDeviceToDevice, c->stream));
	return 0;
}

static int node_forward(struct cuda *c, int i, int train, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[i];
	const void *x = c->tensor[n->x].y;
	void *y = c->tensor[n->y].y;

	switch (n->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		return product_forward(c, i, train, err);
	case LAYER_BATCHNORM:
		return norm_forward(c, i, train, err);
	case LAYER_DROPOUT:
		return dropout_forward(c, i, train, err);
	case LAYER_RELU:
		CU_TRY(kernel_relu_forward(cuda_count(c, n->y), c->dtype, x, y, c->stream));
		return 0;
	case LAYER_MAXPOOL:
		CU_TRY(kernel_maxpool_forward(
			&n->window, c->dtype, x, y, c->node[i].winners, c->stream));
		return 0;
	case LAYER_AVGPOOL:
		CU_TRY(kernel_avgpool_forward(&n->window, c->dtype, x, y, c->stream));
		return 0;
	case LAYER_GLOBALPOOL:
		CU_TRY(kernel_globalpool_forward(c->engine.batch, n->pixels,
			c->nodes.tensor[n->x].c, c->dtype, x, y, c->stream));
		return 0;
	case LAYER_ADD:
		CU_TRY(kernel_add(cuda_count(c, n->y), c->dtype, x, c->tensor[n->with].y, n->relu,
			y, c->stream));
		return 0;
	}
	return mlr_fail(err, ENOTSUP, "backend cuda: layer '%s'", n->layer->name);
}

int cuda_forward(struct cuda *c, const struct kernel_source *from, int train, struct mlr_error *err)
{
	CU_TRY(kernel_gather(from, c->dtype, c->tensor[NODE_INPUT].y, c->stream));
	for (int i = 0; i < c->nodes.n; i++) {
		int r = node_forward(c, i, train, err);

		if (r < 0)
			return mlr_wrap(err, "layer '%s'", c->nodes.node[i].layer->name);
	}
	return 0;
}
