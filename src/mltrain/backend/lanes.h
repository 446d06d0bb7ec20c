/*
 * Kernels that are compiled for two widths of vectors, as they keep sums in as many registers as
 * there are: dense.c, imageconv.c, winograd.c and winograd_weights.c (these two for each size of
 * kernel as well). What they keep in work memory and in packed weights differs by
 * width.
 */
#pragma once

#include "backend/kernels.h"
#include "backend/winograd.h"

/*
 * Dense layers for engines that only predict. They are fast for any number of rows, even one, when
 * reading the weights takes all the time. Weights are packed once in the order in which they are
 * read, which depends on the input's layout.
 */
struct dense {
	struct kernel_image x; /* floats; each image is one row */
	int outputs;
};

/* Count the floats of the packed weights. */
size_t dense_packed(const struct dense *g);

/* Pack weights [outputs][c][h][w]. */
void dense_pack(const struct dense *g, const float *weights, float *packed);

/* y [rows][outputs] of x; bias [outputs] or NULL; y = max(y, 0) if relu. */
void dense_forward(const struct dense *g, int rows, const float *x, const float *packed,
	const float *bias, int relu, float *y);

/*
 * A network's first convolution, of images with few channels, with the ReLU and 2x2 max-pooling
 * after it: stride 1, any square kernel up to 8x8. The forward pass writes only pooled results, and
 * the backward pass reads only the pixels of maxima, one in four.
 *
 * The images are floats, row-major; y is [n][k/16][h/2][w/2][16], floats or bfloat16; weights are
 * [size][size][c][k]. Everything is computed in single precision.
 */
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

struct lanes {
	size_t (*dense_packed)(const struct dense *g);
	void (*dense_pack)(const struct dense *g, const float *weights, float *packed);
	void (*dense_forward)(const struct dense *g, int rows, const float *x, const float *packed,
		const float *bias, int relu, float *y);

	size_t (*imageconv_work)(const struct imageconv *g);
	void (*imageconv_forward)(const struct imageconv *g, int rows, const float *x,
		const float *weights, const float *bias, int relu, void *y, uint8_t *winner,
		float *work);
	void (*imageconv_backward)(const struct imageconv *g, const float *x, const void *dy,
		const uint8_t *winner, float *dw, float *db, float *work);

	const struct winograd_code *winograd_3, *winograd_5; /* by the kernel's size */
};

extern const struct lanes lanes_16; /* AVX-512: F, VL, BW, DQ and CD */
extern const struct lanes lanes_8;  /* AVX2 and FMA; pairs of NEON's registers */

/* The widest that this CPU has and dnn_isa() allows, or NULL. */
const struct lanes *lanes_find(void);
