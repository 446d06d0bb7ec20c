/*
 * Convolutions by cuDNN and dense layers by cuBLASLt: a node's forward pass and the gradients of
 * its input and weights, prepared once.
 */
#pragma once

#include "backend/cuda/node.h"

enum product_what { PRODUCT_FORWARD, PRODUCT_DATA, PRODUCT_WEIGHTS };
#define PRODUCTS 3

/* What a library may use. */
struct product_limits {
	enum dtype dtype;
	int batch, deterministic;
	size_t workspace; /* bytes */
};

struct conv_dnn;
struct gemm_lt;

/* A convolution's or a dense layer's; the others are NULL. */
struct product {
	struct conv_dnn *dnn[PRODUCTS];
	struct gemm_lt *lt[PRODUCTS];
};

/*
 * Open the library of a node and prepare one of its products in ret.
 *
 *   is_float   the output is f32 whatever the dtype
 *
 * Returns 0, -ENOENT when the library is not there, -ENOTSUP, -EIO.
 */
int product_prepare(const struct node *node, const struct product_limits *limits,
	enum product_what what, int is_float, struct product *ret, struct mlr_error *err);
void product_done(struct product *p);

/* Does cuDNN do this node's ReLU? It has no ready-made engine for one without a bias. */
static inline int product_does_relu(const struct node *n)
{
	return n->relu && (n->kind == LAYER_DENSE || n->biases);
}
