/*
 * A network's first convolution, of images with few channels, with the ReLU and 2x2 max-pooling
 * after it: stride 1, any square kernel up to 8x8. The forward pass writes only pooled results, and
 * the backward pass reads only the pixels of maxima, one in four.
 *
 * The images are floats, row-major; y is [n][k/16][h/2][w/2][16], floats or bfloat16; weights are
 * [size][size][c][k]. Everything is computed in single precision.
 */
#ifndef MLT_BACKEND_IMAGECONV_H
#define MLT_BACKEND_IMAGECONV_H

#include <stddef.h>
#include <stdint.h>

struct imageconv {
	int n, c, k, h, w;
	int size, pad;
	int p, q; /* of y */
	int threads;
	int bf16; /* y and its gradient; set by the caller */
};

/* Fill in the sizes. Returns whether this convolution is supported. */
int imageconv_fits(struct imageconv *g, int n, int c, int k, int h, int w, int size, int stride,
	int pad, int threads);

/* Count the floats of work memory. */
size_t imageconv_work(const struct imageconv *g);

/*
 * Compute y of x for the first rows of the batch.
 *
 *   bias     [k], or NULL
 *   relu     y = max(y, 0)
 *   winner   [like y]: each element's index in its window (window.h); NULL: not wanted
 */
void imageconv_forward(const struct imageconv *g, int rows, const float *x, const float *weights,
	const float *bias, int relu, void *y, uint8_t *winner, float *work);

/* Compute the gradients of the weights and of the bias (NULL: none) from that of y. */
void imageconv_backward(const struct imageconv *g, const float *x, const void *dy,
	const uint8_t *winner, float *dw, float *db, float *work);

#endif
