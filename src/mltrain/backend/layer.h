/*
 * backend: arithmetic. Runs a checked list of layers forward, backward and through the update;
 * knows no files and no data sets.
 *
 * This header: one layer as backends see it, the described part and what model/net.h inferred.
 * Shapes are those of one image, without the batch: an image and what convolutions make of it is
 * [channels][height][width], what dense layers make is [units].
 *
 * Layers stand in an order in which each reads only what lies before it. Most read the one right
 * before; a residual network's don't, so every layer says whose output it reads.
 *
 * A new kind is a row of enum layer_kind and its name below; its keys in model/net_file.c, its
 * shapes and parameters in model/net.c, its ONNX operator in model/onnx.c; and its arithmetic in
 * reference.c, onednn_node.c (or onednn_plain.c, plain loops) and cuda's forward.c and
 * backward.c.
 */
#pragma once

#include "tensor/shape.h"

enum layer_kind {
	LAYER_CONV,    /* outputs, size, stride, pad; cross-correlation, square kernel; a stride may
			  be larger than the kernel */
	LAYER_RELU,    /* max(x, 0) */
	LAYER_MAXPOOL, /* size, stride: windows of size x size, which overlap where the stride (1 to
			  size) is less; what no whole window covers at the right and the bottom
			  is dropped */
	LAYER_DENSE,   /* outputs; reads its input as one row, [c][h][w] flattened row-major */
	LAYER_DROPOUT, /* rate; identity when predicting */
	LAYER_AVGPOOL, /* as LAYER_MAXPOOL, the mean of each window */
	LAYER_GLOBALPOOL, /* the mean of each channel: [c][h][w] to [c] */
	LAYER_BATCHNORM, /* epsilon, momentum; per channel, or per unit of a row (Ioffe and Szegedy,
			    2015): the batch's statistics when training, the running ones when
			    predicting */
	LAYER_ADD,       /* from + with, of equal shapes (He et al., 2015) */
};

#define LAYER_KINDS    9
#define LAYER_NAME_MAX 32
#define LAYER_INPUT    (-1) /* from, with: the network's images */

struct layer {
	enum layer_kind kind;
	char name[LAYER_NAME_MAX]; /* unique in its network; names its tensors: "conv1.weight" */
	int from;                  /* index of the layer whose output it reads, or LAYER_INPUT */
	int with;                  /* LAYER_ADD: the other one's */
	int outputs;               /* filters or units */
	int size, stride, pad;
	int no_bias;    /* a convolution or dense layer without biases: biases is 0 */
	float rate;     /* in [0, 1) */
	int own_rows;   /* batch norm: statistics of each rank's rows alone, not of all ranks' */
	float epsilon;  /* batch norm: added to the variance */
	float momentum; /* batch norm: running = (1 - momentum) * running + momentum * now */
	float sigma;    /* deviation of the initial weights, cut at 2 sigma */
	float bias;     /* initial biases */
	float decay; /* weights and biases are in the loss: decay * l2 * (their sum of squares) / 2
		      */

	/* Inferred. Offsets count floats in a parameter block that holds every layer's weight, then
	 * its bias, in the order of layers, row-major: conv weights are
	 * [outputs][channels][size][size], dense ones [outputs][inputs] (PyTorch's layouts), batch
	 * norm has gamma as its weight [channels] and beta as its bias [channels]. */
	struct shape in, out;
	size_t weight_at, weights; /* weights is 0 in a layer without parameters */
	size_t bias_at, biases;
	/* Batch norm alone: floats in a block of states, the running mean [channels], then the
	 * running variance [channels] (unbiased, as PyTorch keeps it). */
	size_t state_at, states;
};

/* The name in descriptions and messages: "conv". */
static inline const char *layer_kind_name(enum layer_kind kind)
{
	static const char *const names[LAYER_KINDS] = { "conv", "relu", "maxpool", "dense",
		"dropout", "avgpool", "globalpool", "batchnorm", "add" };

	return names[kind];
}

static inline int layer_has_params(const struct layer *l)
{
	return l->kind == LAYER_CONV || l->kind == LAYER_DENSE || l->kind == LAYER_BATCHNORM;
}

/* The shape of the weights of a layer that has them. */
static inline struct shape layer_weight_shape(const struct layer *l)
{
	if (l->kind == LAYER_CONV)
		return shape4(l->outputs, l->in.dim[0], l->size, l->size);
	if (l->kind == LAYER_BATCHNORM)
		return shape1(l->in.dim[0]);
	return shape2(l->outputs, (int)shape_count(&l->in));
}
