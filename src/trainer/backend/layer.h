/*
 * backend: arithmetic. Runs a checked list of layers forward, backward and through the update;
 * knows no files and no data sets.
 *
 * This header: one layer as backends see it, the described part and what model/net.h inferred.
 * Shapes are those of one image, without the batch: an image and what convolutions make of it is
 * [channels][height][width], what dense layers make is [units].
 */
#ifndef MLT_BACKEND_LAYER_H
#define MLT_BACKEND_LAYER_H

#include "trainer/tensor/shape.h"

#include <stddef.h>

enum layer_kind {
	LAYER_CONV,    /* outputs, size, stride, pad; cross-correlation, square kernel, with bias */
	LAYER_RELU,    /* max(x, 0) */
	LAYER_MAXPOOL, /* size: windows of size x size that do not overlap; a rest at the edge is
			  dropped */
	LAYER_DENSE,   /* outputs; reads its input as one row, [c][h][w] flattened row-major; with
			  bias */
	LAYER_DROPOUT, /* rate; identity when predicting */
};

#define LAYER_NAME_MAX 32

struct layer {
	enum layer_kind kind;
	char name[LAYER_NAME_MAX]; /* unique in its network; names its tensors: "conv1.weight" */
	int outputs;               /* filters or units */
	int size, stride, pad;
	float rate;                /* in [0, 1) */
	float sigma;               /* deviation of the initial weights, cut at 2 sigma */
	float bias;                /* initial biases */
	int decay; /* weights and biases are in the loss: l2 * (their sum of squares) / 2 */

	/* Inferred. Offsets count floats in a parameter block that holds every layer's weight, then
	 * its bias, in the order of layers, row-major: conv weights are
	 * [outputs][channels][size][size], dense ones [outputs][inputs] (PyTorch's layouts). */
	struct shape in, out;
	size_t weight_at, weights; /* weights is 0 in a layer without parameters */
	size_t bias_at, biases;
};

static inline int layer_has_params(const struct layer *l)
{
	return l->kind == LAYER_CONV || l->kind == LAYER_DENSE;
}

/* The shape of the weights of a layer that has them. */
static inline struct shape layer_weight_shape(const struct layer *l)
{
	if (l->kind == LAYER_CONV)
		return shape4(l->outputs, l->in.dim[0], l->size, l->size);
	return shape2(l->outputs, (int)shape_count(&l->in));
}

#endif
