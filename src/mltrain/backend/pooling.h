/*
 * Pooling for the backend `onednn`, with the layouts of kernels.h. ops.h defines it in plain loops.
 *
 * Windows usually do not overlap. Then the gradient can replace the activation, which needs no
 * winners and no second array.
 */
#ifndef MLT_BACKEND_POOLING_H
#define MLT_BACKEND_POOLING_H

#include "backend/kernels.h"

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

#endif
