/*
 * Batch normalisation (Ioffe and Szegedy, "Batch Normalization", 2015, algorithms 1 and 2) for the
 * backend `onednn`, on activations as kernels.h describes them.
 *
 * Training takes two passes each way: one that sums, between which the ranks add up their sums, and
 * one that computes. Sums are taken around each channel's first value, so that a mean far from zero
 * costs no digits.
 */
#ifndef MLT_BACKEND_NORM_H
#define MLT_BACKEND_NORM_H

#include "backend/kernels.h"

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

#endif
