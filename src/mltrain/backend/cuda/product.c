#include "backend/cuda/product.h"

#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/gemm_lt.h"

static int prepare_dnn(const struct node *n, const struct product_limits *limits,
	enum product_what what, struct conv_dnn **ret, struct mlr_error *err)
{
	const struct layer *l = n->layer;
	struct conv_shape s = { .what = (enum conv_what)what,
		.n = limits->batch,
		.h = l->in.dim[1],
		.w = l->in.dim[2],
		.c = l->in.dim[0],
		.k = l->outputs,
		.r = l->size,
		.stride = l->stride,
		.pad = l->pad,
		.p = l->out.dim[1],
		.q = l->out.dim[2],
		.dtype = limits->dtype,
		.bias = what == PRODUCT_FORWARD && n->biases,
		.relu = what == PRODUCT_FORWARD && product_does_relu(n),
		.deterministic = limits->deterministic };

	TRY(conv_dnn_open(err));
	return conv_dnn_new(&s, limits->workspace, ret, err);
}

static int prepare_lt(const struct node *n, const struct product_limits *limits,
	enum product_what what, int is_float, struct gemm_lt **ret, struct mlr_error *err)
{
	const struct layer *l = n->layer;
	struct gemm_shape s = { .what = (enum gemm_what)what,
		.n = limits->batch,
		.c = (int)shape_count(&l->in),
		.k = l->outputs,
		.dtype = limits->dtype,
		.c_is_f32 = what == PRODUCT_WEIGHTS || (what == PRODUCT_FORWARD && is_float),
		.bias = what != PRODUCT_DATA && n->biases,
		.relu = what == PRODUCT_FORWARD && n->relu };

	TRY(gemm_lt_open(err));
	return gemm_lt_new(&s, limits->workspace, ret, err);
}

int product_prepare(const struct node *n, const struct product_limits *limits,
	enum product_what what, int is_float, struct product *ret, struct mlr_error *err)
{
	int r = n->kind == LAYER_DENSE ? prepare_lt(n, limits, what, is_float, &ret->lt[what], err)
				       : prepare_dnn(n, limits, what, &ret->dnn[what], err);

	if (r < 0)
		mlr_wrap(err, "backend cuda: layer '%s'", n->layer->name);
	return r == -ENOTSUP ? mlr_hint(err, "use --backend onednn") : r;
}

void product_done(struct product *p)
{
	for (int i = 0; i < PRODUCTS; i++) {
		conv_dnn_free(&p->dnn[i]);
		gemm_lt_free(&p->lt[i]);
	}
}
