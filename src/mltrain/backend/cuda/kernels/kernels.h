/*
 * cuda: the backend for NVIDIA's GPUs.
 *
 * This header: the kernels of our own, as C functions that launch them. Each computes what ops.h
 * says in plain loops, in another layout:
 *
 *   activations    [n][h][w][c] ("NHWC"); a row of units is [n][units]
 *   conv weights   [k][r][s][c] ("KRSC")
 *   dense weights  [outputs][inputs in the order of the input's [h][w][c]]
 *   biases, gradients of parameters, statistics, master weights, velocities: f32
 *
 * Activations, their gradients and the weights that are multiplied with are of the call's dtype:
 * float for DTYPE_F32 and DTYPE_TF32, bf16 (16 bits, __nv_bfloat16) for DTYPE_BF16. Sums are f32
 * whatever the dtype; statistics and losses are summed in double. A "dense" layer is a convolution
 * of 1 x 1 images by a 1 x 1 kernel (kernel_dense()), so that one set of kernels serves both.
 *
 * All pointers are to device memory unless said. Every array must be aligned to 16 bytes for the
 * fast path, else (and for channels that are no multiple of 8 in bf16, 4 in f32) a slower, equally
 * right one is taken. Nothing here allocates, waits or reads the host's memory after it returns, so
 * all may be captured into a CUDA graph; what changes from step to step is read from device memory
 * (struct kernel_step). Sums are in an order that depends on the shapes alone: the same inputs
 * give the same bits.
 *
 * Each returns cudaSuccess or the launch's error: cudaErrorInvalidValue for a shape that the
 * function does not take (said there).
 */
#pragma once

#include "tensor/batch.h"
#include "tensor/shape.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a number of that dtype in memory. */
static inline size_t kernel_size(enum dtype dtype)
{
	return dtype == DTYPE_BF16 ? 2 : 4;
}

/*
 * Whether kernels that are captured into a graph may be brought to the GPU while the one before
 * still runs. They wait there for its end, so results are the same. For compute capability 9.0 and
 * later; 0 at first. Of this process, for all captures to come.
 */
void kernel_overlap(int on);

/* --- what changes from step to step (device memory) --- */

/* A step's numbers; an engine uploads an array of them, one for each step of a call. */
struct kernel_step {
	float lr, momentum;
	float l2;                   /* factor of the penalty; with AdamW, of the decay */
	float beta2, rate, epsilon; /* of Adam: optimiser/optimiser.h */
	uint64_t seed, number;      /* name dropout's numbers (tensor/philox.h) */
};

/* A step's results; an array as long as that of the steps. */
struct kernel_result {
	double cross_entropy;  /* mean over this rank's rows */
	double penalty, norm2; /* as in struct step_result */
	int32_t wrong;
	int32_t unused;
};

/*
 * Which of the uploaded steps is computed now. Every function that takes `now` reads the number
 * there; kernel_update() adds one to it when all else is done, so that one captured graph serves
 * every step. NULL: the first.
 */
typedef uint32_t kernel_now;

/* --- images --- */

/* A batch in device memory: tensor/batch.h's, for many steps. */
struct kernel_source {
	const uint8_t *images;         /* [..][c][h][w] */
	const uint32_t *index;         /* [steps][rows]; NULL: step i has images i * rows ... */
	const struct augment *augment; /* [steps][rows]; NULL: none is altered */
	const kernel_now *now;
	int rows, c, h, w; /* c <= IMAGE_CHANNELS_MAX */
	struct image_norm norm;
};

/* y [rows][h][w][c] = the normalised images (batch_gather()). */
cudaError_t kernel_gather(
	const struct kernel_source *from, enum dtype dtype, void *y, cudaStream_t stream);

/* --- convolutions and dense layers (conv.cu): implicit GEMM on tensor cores --- */

/* x [n][h][w][c], w [k][r][r][c], y [n][p][q][k]; as struct op_conv. */
struct kernel_conv {
	int n, c, h, w, k, r, stride, pad, p, q;
};

/* A dense layer of n rows, c inputs and k outputs. */
static inline struct kernel_conv kernel_dense(int n, int c, int k)
{
	struct kernel_conv d = { n, c, 1, 1, k, 1, 1, 0, 1, 1 };

	return d;
}

/*
 * Scratch memory of a convolution's functions: for partial sums where the output alone would leave
 * most of the GPU idle.
 *
 *   memory    [kernel_conv_scratch() bytes]; written and read within one call
 *   tickets   [KERNEL_TICKETS] zero before the first call, zero again after each. Two calls that
 *             may run at the same time need different ones
 */
#define KERNEL_TICKETS 1024

struct kernel_scratch {
	void *memory;
	uint32_t *tickets;
};

/* Bytes of scratch memory that forward and backward_data of this shape need at most. */
size_t kernel_conv_scratch(const struct kernel_conv *d, enum dtype dtype);

/* Operations on a sum before it is stored, in this order. Zeroed: nothing. */
struct kernel_after {
	const float *bias; /* [k]; NULL: none */
	int relu;          /* max(x, 0) */
	/* Dropout after that, for a row of units (p = q = 1); rate 0: none. */
	float rate;
	uint32_t layer;                 /* the dropout layer's index in its network */
	uint64_t first;                 /* this rank's first row in the batch of all ranks */
	const struct kernel_step *step; /* [steps] */
	const kernel_now *now;
	/* 2x2 max-pooling of stride 2 after that; NULL: none. y is then [n][p/2][q/2][k], and
	 * nothing else is written: winners [n][p/2][q/2][kernel_winner_bytes(k)], 2 bits a channel,
	 * the place in the window of the greatest sum (before bias and ReLU; the first of equals),
	 * row-major; channel c's are bits 2 * (c % 4) of byte c / 4. */
	uint8_t *winners;
	int as_float; /* y is float whatever the dtype (logits) */
};

/* Bytes of a pixel's winners: 2 for every 8 channels begun. */
static inline size_t kernel_winner_bytes(int k)
{
	return 2 * (((size_t)k + 7) / 8);
}

/* y = after(w * x). y may not overlap x. */
cudaError_t kernel_conv_forward(const struct kernel_conv *d, enum dtype dtype, const void *x,
	const void *w, const struct kernel_after *after, void *y,
	const struct kernel_scratch *scratch, cudaStream_t stream);

/* Operations on an input's gradient before it is stored. Zeroed: nothing. */
struct kernel_before {
	/* The activation x itself: where it is not above 0 the gradient is 0. That is the gradient
	 * of a ReLU that made x, of a ReLU and a 2x2 maximum, of a ReLU and dropout. NULL: none. */
	const void *relu_of;
	float scale;    /* times this (dropout: 1 / (1 - rate)); 0 stands for 1 */
	int accumulate; /* add to what dx holds (x is read by several layers), before the above */
};

/* dx [n][h][w][c] = before(the gradient of dy [n][p][q][k]). */
cudaError_t kernel_conv_backward_data(const struct kernel_conv *d, enum dtype dtype, const void *dy,
	const void *w, const struct kernel_before *before, void *dx,
	const struct kernel_scratch *scratch, cudaStream_t stream);

/*
 * The gradient of weights and biases, as `splits` partial sums: partial [splits][stride], stride >=
 * k*r*r*c + k, each the weights' part [k][r][r][c] and then the biases' [k]. Their sum in order is
 * the gradient: kernel_sum() makes it, or kernel_update() takes the parts as they are.
 *
 *   splits   kernel_conv_splits()'s answer
 *   bias     not 0: write the biases' part too
 */
int kernel_conv_splits(const struct kernel_conv *d, enum dtype dtype);
cudaError_t kernel_conv_backward_weights(const struct kernel_conv *d, enum dtype dtype,
	const void *x, const void *dy, int splits, size_t stride, int bias, float *partial,
	cudaStream_t stream);

/* sum [count] = partial [0] + partial [1] + ... of partial [splits][stride]. */
cudaError_t kernel_sum(int splits, size_t stride, size_t count, const float *partial, float *sum,
	cudaStream_t stream);

/* --- the first convolution, straight from bytes (conv_few.cuh) --- */

/*
 * kernel_gather() and kernel_conv_forward() in one: images of 1 to 4 channels, c * r * r <= 128,
 * k <= 128. dtype DTYPE_BF16 computes on tensor cores, the others in f32.
 * cudaErrorInvalidValue for other shapes, or when kernel_few_fits() says no.
 *
 *   d        n, c, h, w as the source's
 *   w        KRSC of dtype
 */
int kernel_few_fits(const struct kernel_conv *d, enum dtype dtype);
cudaError_t kernel_few_forward(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *w, const struct kernel_after *after, void *y,
	cudaStream_t stream);

/*
 * The gradient of its weights and biases, as kernel_conv_backward_weights().
 *
 *   winners   not NULL: dy is that of the 2x2 maxima, [n][p/2][q/2][k]
 */
int kernel_few_splits(const struct kernel_conv *d, enum dtype dtype);
cudaError_t kernel_few_backward_weights(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *dy, const uint8_t *winners, int splits,
	size_t stride, float *partial, cudaStream_t stream);

/* --- pooling (pool.cu) --- */

/* x [n][h][w][c], y [n][p][q][c]; windows of size x size, stride apart, may overlap. */
struct kernel_pool {
	int n, c, h, w, size, stride, p, q;
};

/* Maxima; winner [n][p][q][c]: the first of equals' place in its window, row-major. size <= 15. */
cudaError_t kernel_maxpool_forward(const struct kernel_pool *d, enum dtype dtype, const void *x,
	void *y, uint8_t *winner, cudaStream_t stream);
cudaError_t kernel_maxpool_backward(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	const uint8_t *winner, void *dx, cudaStream_t stream);

/* The gradient of 2x2 maxima that kernel_conv_forward() took: winners of 2 bits (size = stride =
 * 2). */
cudaError_t kernel_unpool(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	const uint8_t *winners, void *dx, cudaStream_t stream);

/* Means of windows. */
cudaError_t kernel_avgpool_forward(
	const struct kernel_pool *d, enum dtype dtype, const void *x, void *y, cudaStream_t stream);
cudaError_t kernel_avgpool_backward(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	void *dx, cudaStream_t stream);

/* Means of each channel: x [n][pixels][c], y [n][c]. */
cudaError_t kernel_globalpool_forward(
	int n, int pixels, int c, enum dtype dtype, const void *x, void *y, cudaStream_t stream);
cudaError_t kernel_globalpool_backward(
	int n, int pixels, int c, enum dtype dtype, const void *dy, void *dx, cudaStream_t stream);

/* --- element by element (elements.cu) --- */

/* y = max(x, 0); dx = y > 0 ? dy : 0. In place is fine. */
cudaError_t kernel_relu_forward(
	size_t n, enum dtype dtype, const void *x, void *y, cudaStream_t stream);
cudaError_t kernel_relu_backward(
	size_t n, enum dtype dtype, const void *y, const void *dy, void *dx, cudaStream_t stream);

/* y = a + b (residual networks; also to sum the gradients of what several layers read). y may be a
 * or b. relu: max(a + b, 0). */
cudaError_t kernel_add(size_t n, enum dtype dtype, const void *a, const void *b, int relu, void *y,
	cudaStream_t stream);

/*
 * Dropout of x [rows][h][w][c], forward, and backward of dy alike: y = x * mask, where the mask is
 * made anew from philox.h each time. y may be x.
 *
 *   pixels   h * w
 */
struct kernel_dropout {
	int rows, pixels, c;
	float rate;
	uint32_t layer;
	uint64_t first; /* this rank's first row in the batch of all ranks */
	const struct kernel_step *step;
	const kernel_now *now;
};
cudaError_t kernel_dropout(const struct kernel_dropout *d, enum dtype dtype, const void *x, void *y,
	cudaStream_t stream);

/* From float to dtype's storage. */
cudaError_t kernel_from_float(
	size_t n, enum dtype dtype, const float *x, void *y, cudaStream_t stream);

/* --- batch norm (norm.cu; Ioffe and Szegedy, 2015) --- */

/* x, y [rows][c], rows = images * h * w of this rank. */
struct kernel_norm {
	size_t rows;
	int c;
	double all_rows; /* of all ranks */
	float epsilon, momentum;
	int relu; /* y = max(.., 0); backward: dy is first made 0 where y is not above 0 */
};

/* Blocks that the sums of kernel_norm_sums are split over. */
int kernel_norm_splits(const struct kernel_norm *d);

/*
 * sums [2][c] (double) = the sum of x and the sum of its squares, over this rank's rows; with dy:
 * the sum of dy and the sum of dy * (x - mean) / deviation, which are also the gradients of beta
 * and gamma. Between this and what follows, ranks add theirs up.
 *
 *   partial   [kernel_norm_splits()][2][c] double, scratch
 *   saved     [2][c] with dy: what kernel_norm_forward() saved; else NULL
 *   y         with dy and relu: the output; else NULL
 */
cudaError_t kernel_norm_sums(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const void *dy, const void *y, const float *saved, double *partial, double *sums,
	uint32_t *ticket, cudaStream_t stream);

/*
 * Training: y = gamma * (x - mean) / sqrt(variance + epsilon) + beta of the sums' statistics.
 *
 *   saved     [2][c] set to mean and 1 / deviation, for the backward pass
 *   running   [2][c] mean and (unbiased) variance, moved; NULL: left alone
 */
cudaError_t kernel_norm_forward(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const double *sums, const float *gamma, const float *beta, float *saved, float *running,
	void *y, cudaStream_t stream);

/* Predicting: the same of the running statistics. */
cudaError_t kernel_norm_predict(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const float *running, const float *gamma, const float *beta, void *y, cudaStream_t stream);

/*
 * dx of dy and the sums of kernel_norm_sums() with dy (over all ranks).
 *
 *   local    this rank's own sums, or sums itself
 *   dgamma   [c], dbeta [c]: set to this rank's own sums
 */
cudaError_t kernel_norm_backward(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const void *dy, const void *y, const double *sums, const double *local, const float *gamma,
	const float *saved, float *dgamma, float *dbeta, void *dx, cudaStream_t stream);

/* --- loss (loss.cu) --- */

/*
 * Softmax and cross-entropy of logits [rows][classes] (float), for images whose label is
 * labels[step][rows]: mean loss and count of wrong into result[step], gradient into dx.
 *
 *   dx        [rows][classes] of dtype, divided by all_rows; NULL: not wanted
 *   partial   [KERNEL_LOSS_BLOCKS] scratch;  ticket: as in struct kernel_scratch, one
 */
#define KERNEL_LOSS_BLOCKS 256

struct kernel_loss {
	int rows, classes;
	double all_rows; /* of all ranks */
	const uint16_t *labels;
	const kernel_now *now;
	struct kernel_result *result; /* [steps] */
	double *partial;              /* [2 * KERNEL_LOSS_BLOCKS] */
	uint32_t *ticket;
};
cudaError_t kernel_loss(const struct kernel_loss *d, enum dtype dtype, const float *logits,
	void *dx, cudaStream_t stream);

/*
 * The last dense layer, the loss and that layer's whole backward pass in one launch.
 *
 *   d          rows, classes <= 32, …
 *   inputs     of the dense layer; classes * inputs <= 9216 (kernel_head_fits)
 *   x          [rows][inputs]; w [classes][inputs] f32 (the master weights); bias [classes]
 *   before     what happens to dx
 *   dx         [rows][inputs]
 *   partial    [splits][stride]: the weights' gradient, then the biases', as
 *              kernel_conv_backward_weights(); splits: kernel_head_splits()
 *   logits     [rows][classes] float, or NULL
 */
int kernel_head_fits(int classes, int inputs);
int kernel_head_splits(int rows);
cudaError_t kernel_head(const struct kernel_loss *d, enum dtype dtype, int inputs, const void *x,
	const float *w, const float *bias, const struct kernel_before *before, void *dx, int splits,
	size_t stride, float *partial, float *logits, cudaStream_t stream);

/* --- the update (update.cu) --- */

/* A stretch of parameters that are updated alike. Offsets count elements; keep them multiples of
 * 4. */
struct kernel_part {
	size_t at, count;  /* in params, moment, square and copy */
	const float *grad; /* [splits][stride]: partial sums, or with splits = 1 the gradient */
	int splits;
	float decay; /* times the step's l2; also what the penalty counts */
	size_t stride;
};

#define KERNEL_PARTS_MAX     1024
#define KERNEL_UPDATE_BLOCKS 528

/*
 * The optimiser's rule, as sgd_plain() and adam_wide() have it, over all parts in one launch, where
 * the gradient is the sum of partial sums and l2 is step.l2 * part.decay. Writes norm2 and penalty
 * into result[now], then adds one to *now.
 *
 *   parts     [n] in device memory, n <= KERNEL_PARTS_MAX
 *   copy      params as bf16, written anew; NULL: none
 *   partial   [2 * KERNEL_UPDATE_BLOCKS] scratch
 *   ticket    one, as in struct kernel_scratch
 */
enum kernel_rule { KERNEL_SGD, KERNEL_ADAM, KERNEL_ADAMW }; /* in the order of the optimisers */

struct kernel_update {
	enum kernel_rule rule;
	const struct kernel_part *parts;
	int n;
	size_t elements;        /* of all parts together: sizes the grid */
	float *params, *moment; /* moment: SGD's velocity or Adam's first moment */
	float *square;          /* Adam's second moment; NULL with SGD */
	void *copy;
	const struct kernel_step *step; /* [steps] */
	struct kernel_result *result;   /* [steps] */
	kernel_now *now;
	double *partial;
	uint32_t *ticket;
};
cudaError_t kernel_update(const struct kernel_update *d, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
