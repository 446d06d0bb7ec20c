/*
 * cuda: the backend for NVIDIA's GPUs.
 *
 * Convolutions are cuDNN's and matrix products cuBLASLt's (libraries/). This header: the kernels of
 * our own for all else, as C functions that launch them. Each computes what ops.h says in plain
 * loops, in another layout:
 *
 *   activations    [n][h][w][c] ("NHWC"); a row of units is [n][units]
 *   conv weights   [k][r][s][c] ("KRSC")
 *   dense weights  [outputs][inputs in the order of the input's [h][w][c]]
 *   biases, gradients of parameters, statistics, master weights, velocities: f32
 *
 * Activations, their gradients and the weights that are multiplied with are of the call's dtype:
 * float for DTYPE_F32 and DTYPE_TF32, bf16 (16 bits, __nv_bfloat16) for DTYPE_BF16. Sums are f32
 * whatever the dtype; statistics and losses are summed in double.
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

/* y = max(x, 0); dx = y > 0 ? dy * scale : 0, which with scale = 1 / (1 - rate) is the gradient of
 * dropout behind the ReLU, too. In place is fine. */
cudaError_t kernel_relu_forward(
	size_t n, enum dtype dtype, const void *x, void *y, cudaStream_t stream);
cudaError_t kernel_relu_backward(size_t n, enum dtype dtype, const void *y, const void *dy,
	float scale, void *dx, cudaStream_t stream);

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

/* From float to dtype's storage, and back. */
cudaError_t kernel_from_float(
	size_t n, enum dtype dtype, const float *x, void *y, cudaStream_t stream);
cudaError_t kernel_to_float(
	size_t n, enum dtype dtype, const void *x, float *y, cudaStream_t stream);

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
 *   ticket    zero before the first call, zero again after each. Two calls that may run at the
 *             same time need different ones
 */
cudaError_t kernel_norm_sums(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const void *dy, const void *y, const float *saved, double *partial, double *sums,
	uint32_t *ticket, cudaStream_t stream);

/* sums [c] (float) = the sum of x over the rows: of dy, a bias's gradient. */
cudaError_t kernel_channel_sums(const struct kernel_norm *d, enum dtype dtype, const void *x,
	double *partial, float *sums, uint32_t *ticket, cudaStream_t stream);

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
 *   partial   [KERNEL_LOSS_BLOCKS] scratch;  ticket: as kernel_norm_sums()'s
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

/* --- the update (update.cu) --- */

/* A stretch of parameters that are updated alike: elements of params, grad, moment, square and
 * copy, all multiples of 4. */
struct kernel_part {
	size_t at, count;
	float decay; /* times the step's l2; also what the penalty counts */
};

#define KERNEL_PARTS_MAX     1024
#define KERNEL_UPDATE_BLOCKS 528

/*
 * The optimiser's rule, as sgd_plain() and adam_wide() have it, over all parts in one launch, where
 * l2 is step.l2 * part.decay. Writes norm2 and penalty into result[now], then adds one to *now. All
 * arrays are aligned to 16 bytes.
 *
 *   parts     [n] in device memory, n <= KERNEL_PARTS_MAX
 *   copy      params as bf16, written anew; NULL: none
 *   partial   [2 * KERNEL_UPDATE_BLOCKS] scratch
 *   ticket    as kernel_norm_sums()'s
 */
enum kernel_rule { KERNEL_SGD, KERNEL_ADAM, KERNEL_ADAMW }; /* in the order of the optimisers */

struct kernel_update {
	enum kernel_rule rule;
	const struct kernel_part *parts;
	int n;
	size_t elements; /* of all parts together: sizes the grid */
	const float *grad;
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
