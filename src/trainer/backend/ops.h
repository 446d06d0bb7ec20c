/*
 * Each layer's arithmetic as plain loops, the readable oracle that fast backends are checked
 * against. Arrays are float, row-major, and do not overlap unless said; sums are kept in double.
 * N images are computed; d_ marks the gradient of the loss with respect to what follows. Backward
 * functions write (not add to) their results.
 */
#ifndef MLT_BACKEND_OPS_H
#define MLT_BACKEND_OPS_H

#include <stddef.h>
#include <stdint.h>

/* x [n][c][h][w], w [k][c][r][r], y [n][k][p][q] with p = (h + 2*pad - r) / stride + 1, q alike. */
struct op_conv {
	int n, c, h, w, k, r, stride, pad, p, q;
};

/*
 * Convolution: y = w * x + b, zeros beyond the edge (cross-correlation; Goodfellow et al., Deep
 * Learning, eq. 9.6).
 */
void op_conv_forward(
	const struct op_conv *d, const float *x, const float *w, const float *b, float *y);
void op_conv_backward_data(const struct op_conv *d, const float *dy, const float *w, float *dx);
void op_conv_backward_weights(const struct op_conv *d, const float *x, const float *dy, float *dw,
	float *db);

/* Dense: x [n][c], w [k][c], y [n][k] = x * transpose(w) + b. */
struct op_dense {
	int n, c, k;
};

void op_dense_forward(
	const struct op_dense *d, const float *x, const float *w, const float *b, float *y);
void op_dense_backward_data(const struct op_dense *d, const float *dy, const float *w, float *dx);
void op_dense_backward_weights(const struct op_dense *d, const float *x, const float *dy, float *dw,
	float *db);

/* y = max(x, 0); a NaN stays one. The gradient at 0 is 0. y may be x, and dx may be dy. */
void op_relu_forward(size_t n, const float *x, float *y);
void op_relu_backward(size_t n, const float *y, const float *dy, float *dx);

/*
 * Max-pooling of size x size windows that do not overlap: x [n][c][h][w], y [n][c][h/size][w/size].
 * Of equal values the first in row-major order wins, as in other trainers.
 *
 *   winner   [n][c][h/size][w/size]: the winner's place in its window, row-major, 0..size*size-1
 */
struct op_pool {
	int n, c, h, w, size;
};

void op_pool_forward(const struct op_pool *d, const float *x, float *y, uint8_t *winner);
void op_pool_backward(const struct op_pool *d, const float *dy, const uint8_t *winner, float *dx);

/* y = x * mask (mask: rng_dropout()); y may be x. The gradient is the same product. */
void op_dropout(size_t n, const float *x, const float *mask, float *y);

/*
 * Softmax and cross-entropy: the mean over n images of -log softmax(x)[label].
 *
 *   x      [n][classes] logits
 *   dx     [n][classes], or NULL when the gradient is not wanted; may be x
 *   wrong  images whose highest logit (the first of equals) is not the label's; a row with NaN is
 * wrong
 */
double op_softmax_loss(
	int n, int classes, const float *x, const uint8_t *labels, float *dx, int *wrong);

/* The index of the highest of n logits, the first of equals; -1 when one is NaN. */
int op_argmax(int n, const float *x);

/*
 * Momentum SGD over n parameters: g += l2 * p; v = momentum * v + g; p -= lr * v, g left as it was.
 * Returns the sum of squares of p before.
 */
double op_sgd(size_t n, float *p, float *v, const float *g, float lr, float momentum, float l2);

#endif
