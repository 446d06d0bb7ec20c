/*
 * Passes of the backend `onednn` that touch memory less often than a sequence of oneDNN's
 * primitives: ReLU, sums and dropout; pooling.c and norm.c have more. Each runs on all threads with
 * the CPU's widest vectors. ops.h defines them in plain loops.
 *
 * Activations are floats or, if bf16 is set, bfloat16 (wide.h). Memory is allocated up to a
 * multiple of 64 bytes, and elementwise passes read and write all of it.
 */
#pragma once

#include "base/base.h"

#define KERNELS_THREADS_MAX 1024

/*
 * The layout of an activation: [n][ceil(c / block)][h][w][block], with padding for channels above
 * c. A batch of rows has h = w = 1 and block = c.
 */
struct kernel_image {
	int n, c, h, w, block;
	int bf16;
};

/* Count the elements, including padding. */
static inline size_t kernel_image_count(const struct kernel_image *i)
{
	return (size_t)i->n * (size_t)((i->c + i->block - 1) / i->block * i->block) * (size_t)i->h *
		(size_t)i->w;
}

/* y = max(x, 0), NaN stays NaN; its gradient in place: dy where y > 0, else 0. */
void kernel_relu_forward(size_t n, const void *x, void *y, int bf16);
void kernel_relu_backward(size_t n, const void *y, void *dy, int bf16);

/* y = a + b, then max(y, 0) if relu; y may be a or b. */
void kernel_add(size_t n, const void *a, const void *b, void *y, int relu, int bf16);

/* Copy, converting between floats and bfloat16. */
void kernel_convert(size_t n, const void *x, int x_bf16, void *y, int y_bf16);

/* Copy as bfloat16 in the calling thread alone. */
void kernel_to_bf16(size_t n, const float *x, uint16_t *y);

/* Round floats to those that bf16 has, on all threads. */
void kernel_round_to_bf16(size_t n, const float *x, float *y);

/*
 * Dropout (rng_dropout() decides which elements). A bit of the mask is 1 for an element that is
 * kept, in the order of [n][c][h][w].
 *
 *   first   the batch's first element among those of all ranks
 *   bits    [(elements + 15) / 16]
 */
struct kernel_dropout {
	struct kernel_image image;
	float rate;
	uint16_t *bits;
};

void kernel_dropout_draw(const struct kernel_dropout *d, uint64_t seed, uint64_t step,
	uint32_t layer, uint64_t first);

/* y = x / (1 - rate) where kept, else 0; the gradient likewise. y may be x. */
void kernel_dropout_apply(const struct kernel_dropout *d, const void *x, void *y);

/* The arrays are the caller's, norm_channels() long but for the last two. */
struct norm {
	struct kernel_image x;
	int relu; /* y = max(y, 0); going back, let the gradient pass it */
	float epsilon;
	float *mean, *inverse; /* the batch's mean and 1 / sqrt(variance + epsilon) */
	float *scale, *shift;  /* y = scale * x + shift */
	double *sums;          /* [2 * channels]: for the ranks to add up */
	double *partial;       /* [threads * 2 * channels] */
};

/* Channels, padding included: a multiple of the block. */
static inline size_t norm_channels(const struct norm *l)
{
	return (size_t)((l->x.c + l->x.block - 1) / l->x.block * l->x.block);
}

/* sums: each channel's mean, then its mean square, over this rank's batch. The caller weighs them
 * by its share of all rows before the ranks add them up. */
void norm_sum(const struct norm *l, const void *x, int threads);

/*
 * Settle mean, inverse, scale and shift by sums that ranks have added up, and let the running
 * statistics follow.
 *
 *   shares     the rows of all ranks in units of this rank's
 *   running    the mean [c], then the unbiased variance [c]
 *   momentum   running = (1 - momentum) * running + momentum * now
 */
void norm_settle(const struct norm *l, double shares, const float *gamma, const float *beta,
	float momentum, float *running);

/* Settle scale and shift by running statistics alone. */
void norm_settle_running(
	const struct norm *l, const float *gamma, const float *beta, const float *running);

/* y of x; y may be x. */
void norm_apply(const struct norm *l, const void *x, void *y);

/* sums: each channel's sum of dy, which is beta's gradient, then that of dy * (normalised x), which
 * is gamma's. y is read only for relu. */
void norm_back_sum(const struct norm *l, const void *x, const void *y, const void *dy, int threads);

/* dx of dy by sums that ranks have added up; dx may be dy. */
void norm_back_apply(const struct norm *l, double shares, const void *x, const void *y,
	const void *dy, void *dx);

/* Windows of size x size, one every stride pixels; y has p x q of them. */
struct pooling {
	struct kernel_image x;
	int size, stride, p, q;
	int mean; /* else the maximum */
};

/* y [rows][p][q][block] of x [rows][h][w][block]. */
void pooling_forward(const struct pooling *l, const void *x, void *y);

/*
 * Compute dx from dy and the activation x, which is not read for means. Of equal values in a window
 * the first is the maximum.
 */
void pooling_backward(const struct pooling *l, const void *x, const void *dy, void *dx);

/* Can pooling_backward_in_place() do it? */
int pooling_is_plain(const struct pooling *l);

/*
 * The same for maxima of windows that do not overlap: x is the activation before the call and the
 * gradient after it.
 *
 *   relu   x is a ReLU's output: also apply that ReLU's gradient (where the maximum is > 0)
 */
void pooling_backward_in_place(const struct pooling *l, int relu, const void *dy, void *x);

/* Compute the mean of each channel, y [n][c], and its gradient. */
void pooling_global_forward(const struct kernel_image *x, const void *from, void *y);
void pooling_global_backward(const struct kernel_image *x, const void *dy, void *dx);
