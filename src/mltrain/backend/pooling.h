/*
 * Pooling for the backend `onednn`, on activations as kernels.h describes them. ops.h says what it
 * computes, in plain loops.
 *
 * Windows that do not overlap are the common case: there the gradient can take the activation's
 * place, so that neither winners are kept nor a second array is touched.
 */
#ifndef MLT_BACKEND_POOLING_H
#define MLT_BACKEND_POOLING_H

#include "backend/kernels.h"

/* Windows of size x size, one every stride pixels; y has p x q of them. */
struct pooling {
	struct kernel_image x;
	int size, stride, p, q;
	int mean; /* else the greatest */
};

/* y [rows][p][q][block] of x [rows][h][w][block]. */
void pooling_forward(const struct pooling *l, const void *x, void *y);

/*
 * dx of dy, which x (the activation) helps to find; not read for means. Of equals in a window the
 * first wins.
 */
void pooling_backward(const struct pooling *l, const void *x, const void *dy, void *dx);

/* Can pooling_backward_in_place() do it? */
int pooling_is_plain(const struct pooling *l);

/*
 * The same for greatest values of windows that do not overlap: x goes in as the activation and
 * comes out as the gradient.
 *
 *   relu   x is a ReLU's output: let the gradient pass that ReLU too (where the greatest is > 0)
 */
void pooling_backward_in_place(const struct pooling *l, int relu, const void *dy, void *x);

/* The mean of each channel, y [n][c]; and its gradient. */
void pooling_global_forward(const struct kernel_image *x, const void *from, void *y);
void pooling_global_backward(const struct kernel_image *x, const void *dy, void *dx);

#endif
