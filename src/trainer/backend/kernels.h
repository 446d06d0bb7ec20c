/*
 * The passes that the backend `onednn` does itself, because together they touch memory less often
 * than one oneDNN primitive after the other: max-pooling with ReLU's gradient, and the whole
 * update. Each runs on all threads, and on every CPU with the widest vectors that it has. ops.h
 * says what they compute, in plain loops.
 */
#ifndef MLT_BACKEND_KERNELS_H
#define MLT_BACKEND_KERNELS_H

#include <stddef.h>

#define KERNELS_THREADS_MAX 1024

/*
 * An activation as rows of images: [rows][h][w][block], where rows = n * channels / block. Windows
 * are size x size and do not overlap.
 */
struct kernel_pool {
	size_t rows;
	int h, w, block, size;
};

/* y [rows][h/size][w/size][block] = the greatest of each window of x. */
void kernel_pool_forward(const struct kernel_pool *p, const float *x, float *y);

/*
 * The gradient, in place: x goes in as the activation and comes out as the gradient with respect to
 * it. The first of equals in a window wins.
 *
 *   relu   x is a ReLU's output: let the gradient pass that ReLU too (where the greatest is > 0)
 */
void kernel_pool_backward(const struct kernel_pool *p, int relu, const float *dy, float *x);

/* ReLU's gradient in place: dy where y > 0, else 0. And its forward pass. */
void kernel_relu_backward(size_t n, const float *y, float *dy);
void kernel_relu_forward(size_t n, const float *x, float *y);

/* z = x * y, elementwise; z may be x. */
void kernel_multiply(size_t n, const float *x, const float *y, float *z);

/* A stretch of parameters that are updated alike. */
struct kernel_sgd_part {
	size_t at, count;
	float l2;
};

/*
 * Momentum SGD over one block in one pass: g + l2 * p; v = momentum * v + that; p -= lr * v.
 *
 *   parts     [n], in order, without overlap
 *   penalty   the sum over parts of l2 * (sum of squares before) / 2
 *   norm2     the sum of squares before
 */
void kernel_sgd(const struct kernel_sgd_part *parts, size_t n, float *p, float *v, const float *g,
	float lr, float momentum, double *penalty, double *norm2);

#endif
