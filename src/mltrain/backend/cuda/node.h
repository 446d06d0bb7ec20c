/*
 * What a GPU runs of a network: nodes (backend/graph.h), which do ReLU, dropout and 2x2 maxima on
 * the way, and the tensors between them.
 */
#pragma once

#include "backend/cuda/kernels/kernels.h"
#include "backend/graph.h"

#define NODE_INPUT 0 /* the tensor of the network's images */

struct tensor_use {
	int h, w, c;
	size_t count; /* elements an image */
	int producer; /* node; -1: the images */
	int last;     /* the last node that reads it; -1: none */
	int readers;
	int is_float; /* logits are f32 whatever the dtype */
	int needs;    /* its gradient is wanted: something before it has parameters */
};

struct node {
	enum layer_kind kind;
	const struct layer *layer;
	int index;                 /* the layer's */
	int relu, pool;            /* taken in */
	int dropout;               /* the layer's index that was taken in; -1: none */
	float rate;                /* of that, or of a dropout layer itself */
	int x, with, y;            /* tensors; with: LAYER_ADD's, else -1 */
	int adds, with_adds;       /* the gradient of x, of with is added to another's */
	struct kernel_pool window; /* pooling, taken in or not */
	int pixels;                /* of x: h * w */
	/* Parameters on the device, in elements: the weights lie at `at`, the biases bias_at
	 * behind that, zeros between and behind them: count in all, a multiple of 4. */
	size_t at, bias_at, count;
	size_t weights, biases;
	size_t state_at; /* batch norm: floats among the states */
};

struct nodes {
	struct node *node; /* [n], owned */
	int n;
	struct tensor_use *tensor; /* [tensors], owned; 0 is the images */
	int tensors;
	size_t elements; /* of all parameters on the device, with the gaps between them */
	int norms;       /* batch norms */
};

/*
 * Make nodes of layers[n] for batches of `batch` images. They borrow the layers.
 *
 * Returns 0, or -ENOTSUP with the layer that no kernel does.
 */
int nodes_make(
	const struct layer *layers, size_t n, int batch, struct nodes *ret, struct mlr_error *err);
void nodes_done(struct nodes *n);
