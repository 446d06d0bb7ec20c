/*
 * Convolutions by cuDNN 9's graph API, its backend descriptors in C: the convolution, and forward
 * its bias and ReLU with it, as one graph that one engine computes.
 * https://docs.nvidia.com/deeplearning/cudnn, "Graph API", "Backend descriptor types"
 *
 * Activations are NHWC, weights KRSC. All arrays are of one type, gradients of weights and biases
 * too: cuDNN's ready-made engines mix no f32 with bf16 (9.19).
 */
#pragma once

#include "base/base.h"
#include "tensor/shape.h"

#include <cuda_runtime_api.h>

enum conv_what {
	CONV_FORWARD, /* y = relu(w * x + b) */
	CONV_DATA,    /* dx of dy and w */
	CONV_WEIGHTS, /* dw of x and dy */
};

struct conv_shape {
	enum conv_what what;
	int n, h, w, c; /* x */
	int k, r;       /* filters of r x r */
	int stride, pad;
	int p, q; /* y's height and width */
	enum dtype dtype;
	int bias, relu;    /* CONV_FORWARD alone; ReLU only behind a bias */
	int deterministic; /* none of the engines that add in an order of chance */
};

struct conv_dnn;

/* Open the library, of which a process has one handle. Returns 0, -ENOENT when it is not there,
 * -EIO. */
int conv_dnn_open(struct mlr_error *err);
/*
 * Open it for a device that is not here, for tests: convolutions can be prepared and not run.
 *
 *   json   what cuDNN says of a device: CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION (cuDNN 9.8)
 *
 * Returns 0, -ENOENT when the library is not there, -EIO.
 */
int conv_dnn_open_described(const char *json, struct mlr_error *err);

/*
 * Prepare one convolution with the first engine that cuDNN's heuristics name (mode A, then B, then
 * fallback; nothing is timed), that takes no more workspace and need not be compiled first.
 *
 * Returns 0, -ENOTSUP when there is none, -EIO.
 */
int conv_dnn_new(const struct conv_shape *shape, size_t workspace, struct conv_dnn **ret,
	struct mlr_error *err);
void conv_dnn_free(struct conv_dnn **c);

/* Put it on the stream: x (or dx), w (or dw), y (or dy), b where the shape has a bias. */
int conv_dnn_run(struct conv_dnn *c, void *x, void *w, void *b, void *y, void *workspace,
	cudaStream_t stream, struct mlr_error *err);
