/*
 * A network's first convolution, of images that have few channels, with the ReLU and the 2x2
 * max-pooling behind it: stride 1, any square kernel up to 8x8. Only pooled results are written,
 * and on the way back only the pixels that won are looked at, one in four.
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
	int bf16; /* y and its gradient; the caller's to set */
};

/* Fill in sizes: is such a convolution possible this way? */
int imageconv_fits(struct imageconv *g, int n, int c, int k, int h, int w, int size, int stride,
	int pad, int threads);

/* Floats of memory to work in. */
size_t imageconv_work(const struct imageconv *g);

/*
 * y of x, for the first rows of the batch.
 *
 *   bias     [k], or NULL
 *   relu     y = max(y, 0)
 *   winner   alike y: where in its window each element was (window.h); NULL when not wanted
 */
void imageconv_forward(const struct imageconv *g, int rows, const float *x, const float *weights,
	const float *bias, int relu, void *y, uint8_t *winner, float *work);

/* The gradients of the weights and of the bias (NULL: none) by that of y. */
void imageconv_backward(const struct imageconv *g, const float *x, const void *dy,
	const uint8_t *winner, float *dw, float *db, float *work);

#endif
