/*
 * Convolutions of 3x3 and 5x5 kernels, stride 1, with as many outputs as inputs, with 4 and 6.25
 * times fewer multiplications: Winograd's F(4x4, 3x3) and F(4x4, 5x5) (Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", 2016). The image is cut into tiles of 4x4 outputs;
 * a tile's inputs (6x6 or 8x8) and the kernel are transformed to as many points, where the
 * convolution is a product at each point, summed over channels:
 *
 *   forward    V = B'xB   U = GwG'   M = V U   y = A'MA
 *   backward   dM = A dy A'   dV = dM U'   dx = B dV B'   dU = V' dM   dw = G' dU G
 *
 * (' transposes; backward is forward's exact adjoint, tile by tile.) A few tiles go through all
 * stages at a time, so that V and M stay in a core's cache. In single precision 5x5 costs about one
 * of seven digits, so outputs differ by 1e-5 of their length from direct sums; tests allow 1e-4.
 * Everything is computed in single precision even where activations are bfloat16, but for the
 * products when a CPU with AVX512_BF16 trains in bfloat16 (pairs.c): V, U and dM are rounded, sums
 * are not. Outputs of 5x5 are then some 4 % of their length off, evenly spread and without a bias,
 * which is far less than what gradients of a batch differ by. Predictions do without.
 *
 * A ReLU and 2x2 max-pooling after it are applied as the results are written.
 */
#pragma once

#include "base/base.h"

#define WINOGRAD_TILE 4 /* outputs of a tile, down and across */

/*
 * Sizes. Activations are [n][channels/16][h][w][16], so c and k are multiples of 16; weights are
 * [size][size][c][k].
 */
struct winograd {
	int n, c, k, h, w;
	int size; /* of a kernel: 3 or 5 */
	int threads;
	int pool; /* y is pooled: [n][k/16][h/2][w/2][16] */
	int bf16; /* activations and their gradients */
	int tiles_down, tiles_across;
	int chunk; /* tiles that go through all stages at a time */
};

/* Fill in the sizes, but pool and bf16. Returns whether this convolution is supported. */
int winograd_fits(struct winograd *g, int n, int c, int k, int h, int w, int size, int stride,
	int pad, int threads);

/* Count the floats in U and its transpose. */
size_t winograd_u(const struct winograd *g);

/* The functions that are compiled for each size of kernel and width of vectors (lanes.h). */
struct winograd_code {
	/* Count the floats of work memory. */
	size_t (*work)(const struct winograd *g, int trains);

	/* Compute U [points][c][k] of w, and each point's transpose [points][k][c]; ut may be NULL.
	 */
	void (*weights)(const struct winograd *g, const float *w, float *u, float *ut);

	/* Round U and its transpose for products in bfloat16, to [winograd_u()/2] each; ut may be
	 * NULL. */
	void (*pairs)(const struct winograd *g, const float *u, const float *ut, uint32_t *pairs,
		uint32_t *pairs_t);

	/*
	 * Compute y of x for the first rows of the batch.
	 *
	 *   pairs    of u: multiply in bfloat16; NULL: in single precision
	 *   bias     [k], or NULL
	 *   relu     y = max(y, 0)
	 *   winner   [like y]: each pooled element's index in its window, for the backward pass;
	 *            NULL: not wanted
	 *   work     [work()]
	 */
	void (*forward)(const struct winograd *g, int rows, const void *x, const float *u,
		const uint32_t *pairs, const float *bias, int relu, void *y, uint8_t *winner,
		float *work);

	/*
	 * Compute the gradients of w, of the bias and of x from that of y.
	 *
	 *   y       where y is not > 0, dy counts as 0 (the ReLU's gradient); NULL: no ReLU.
	 *           Not read if pooled, as winner has it
	 *   pairs   of ut: multiply in bfloat16; NULL: in single precision
	 *   db      [k], or NULL
	 *   dx      or NULL
	 */
	void (*backward)(const struct winograd *g, const void *x, const void *y, const void *dy,
		const uint8_t *winner, const float *ut, const uint32_t *pairs, float *dw, float *db,
		void *dx, float *work);
};

/* --- pairs.c: products of bfloat16, whose elements lie in pairs --- */

#define PAIRS_ROWS  8  /* rows of C that are computed at once */
#define PAIRS_LANES 16 /* columns of C in a vector */

/* to [n/2] of from [n]: pairs of neighbours in a row of an even length; n is a multiple of
 * 2 * PAIRS_LANES. */
void pairs_of_columns(const float *from, size_t n, uint32_t *to);

/* to [(rows+1)/2][columns] of from [rows][columns]: pairs of neighbours in a column; columns is a
 * multiple of PAIRS_LANES. */
void pairs_of_rows(const float *from, int rows, int columns, uint32_t *to);

/*
 * C = A B, or C += A B, of m x 2k and 2k x n: m a multiple of PAIRS_ROWS, n of PAIRS_LANES.
 *
 *   across, down   words from a row of A to the next, and from a pair of columns to the next
 *   b              [k][n]
 */
struct pairs_product {
	const uint32_t *a, *b;
	float *c;
	size_t across, down;
	int m, n, k;
};

void pairs_product(const struct pairs_product *p, int add);
