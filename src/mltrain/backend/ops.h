/*
 * Each layer's arithmetic as plain loops, with which tests compare the fast backends. Arrays are
 * float, row-major, and must not overlap unless a comment allows it; sums are double. N images are
 * computed; d_ marks the gradient of the loss with respect to what follows. Backward functions
 * overwrite their results.
 */
#pragma once

#include "base/base.h"

/* x [n][c][h][w], w [k][c][r][r], y [n][k][p][q] with p = (h + 2*pad - r) / stride + 1, q alike. */
struct op_conv {
	int n, c, h, w, k, r, stride, pad, p, q;
};

/* A dense layer, y [n][k] = x [n][c] * transpose(w [k][c]) + b: images of one pixel. */
static inline struct op_conv op_dense(int n, int c, int k)
{
	return (struct op_conv){ n, c, 1, 1, k, 1, 1, 0, 1, 1 };
}

/*
 * Convolution: y = w * x + b (b NULL: 0, and so for db below), zeros beyond the edge
 * (cross-correlation; Goodfellow et al., Deep Learning, eq. 9.6).
 */
void op_conv_forward(
	const struct op_conv *d, const float *x, const float *w, const float *b, float *y);
void op_conv_backward_data(const struct op_conv *d, const float *dy, const float *w, float *dx);
void op_conv_backward_weights(
	const struct op_conv *d, const float *x, const float *dy, float *dw, float *db);

/* y = max(x, 0); NaN stays NaN. The gradient at 0 is 0. y may be x, and dx may be dy. */
void op_relu_forward(size_t n, const float *x, float *y);
void op_relu_backward(size_t n, const float *y, const float *dy, float *dx);

/*
 * Pooling of size x size windows, one every stride pixels: x [n][c][h][w], y [n][c][p][q] with
 * p = (h - size) / stride + 1, q alike. Of equal values the first in row-major order is the
 * maximum, as in other trainers.
 *
 *   winner   [n][c][p][q]: the maximum's index in its window, row-major, 0..size*size-1
 */
struct op_pool {
	int n, c, h, w, size, stride, p, q;
};

void op_pool_forward(const struct op_pool *d, const float *x, float *y, uint8_t *winner);
void op_pool_backward(const struct op_pool *d, const float *dy, const uint8_t *winner, float *dx);

/* The mean of each window. */
void op_avgpool_forward(const struct op_pool *d, const float *x, float *y);
void op_avgpool_backward(const struct op_pool *d, const float *dy, float *dx);

/* The mean of each of `planes` arrays of `pixels`: y [planes]. */
void op_globalpool_forward(size_t planes, size_t pixels, const float *x, float *y);
void op_globalpool_backward(size_t planes, size_t pixels, const float *dy, float *dx);

/*
 * Batch normalisation (Ioffe and Szegedy, 2015): per channel c of x [n][c][pixels]
 *
 *   y = gamma * (x - mean) / sqrt(var + epsilon) + beta
 *
 * with the mean and the biased variance of the batch of all ranks in training, the running ones in
 * prediction. Between two of these functions the ranks' sums are added up:
 *
 *   op_norm_sums          moments [2][c] = sums of x and of its squares over this rank's share
 *   op_norm_statistics    moments of all ranks, count values a channel -> mean [c], var [c]
 *   op_norm_forward       y
 *   op_norm_grads         sums [2][c] = sums of dy and of dy * (x - mean) / sqrt(var + epsilon)
 *                         over this rank's share: this rank's part of beta's and gamma's gradient
 *   op_norm_backward      dx from the sums of all ranks, the way through mean and variance included
 *
 * op_norm_track() updates the running values: running = (1 - momentum) * running + momentum * now,
 * with the unbiased variance now (PyTorch's BatchNorm2d).
 */
struct op_norm {
	int n, c, pixels;
	float epsilon;
};

void op_norm_sums(const struct op_norm *d, const float *x, double *moments);
void op_norm_statistics(int c, double count, const double *moments, float *mean, float *var);
void op_norm_forward(const struct op_norm *d, const float *x, const float *mean, const float *var,
	const float *gamma, const float *beta, float *y);
void op_norm_grads(const struct op_norm *d, const float *x, const float *mean, const float *var,
	const float *dy, double *sums);
void op_norm_backward(const struct op_norm *d, double count, const float *x, const float *mean,
	const float *var, const float *gamma, const double *sums, const float *dy, float *dx);
void op_norm_track(int c, double count, float momentum, const float *mean, const float *var,
	float *running_mean, float *running_var);

/* y = a + b; y may be either. */
void op_add(size_t n, const float *a, const float *b, float *y);

/* y = x * mask (mask: rng_dropout()); y may be x. The gradient is the same product. */
void op_dropout(size_t n, const float *x, const float *mask, float *y);

/*
 * Softmax and cross-entropy: the mean over n images of -log softmax(x)[label].
 *
 *   x      [n][classes] logits
 *   dx     [n][classes], or NULL for no gradient; may be x
 *   wrong  images whose highest logit (the first of equals) is not the label's; a row with NaN is
 * wrong
 */
double op_softmax_loss(
	int n, int classes, const float *x, const uint16_t *labels, float *dx, int *wrong);

/*
 * Label smoothing (Szegedy et al., "Rethinking the Inception Architecture", CVPR 2016, section 7):
 * a share of each label goes to all classes alike, its own included, as PyTorch's CrossEntropyLoss
 * does it. The loss is linear in the labels, so this adds to op_softmax_loss() what it changes.
 *
 *   share   in [0, 1]
 *   dx      the gradient of op_softmax_loss()
 *
 * Returns what is added to the mean loss.
 */
double op_smooth_loss(
	int n, int classes, float share, const float *x, const uint16_t *labels, float *dx);

/* Return the index of the highest of n logits, the first of equals; -1 if one is NaN. */
int op_argmax(int n, const float *x);
