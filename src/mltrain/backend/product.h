/*
 * Small matrix products for matrices in a core's cache, inlined into functions of one width of
 * vectors (WIDE_FIXED): of 32 registers 16 hold sums, of AVX2's 16 eight.
 */
#ifndef MLT_BACKEND_PRODUCT_H
#define MLT_BACKEND_PRODUCT_H

#include "tensor/wide.h"

#define PRODUCT_ROWS (WIDE_LANES / 2) /* rows of C that are computed at once */

/*
 * C = A B, or C += A B, of m x k and k x n: m a multiple of PRODUCT_ROWS, n of WIDE_LANES.
 *
 *   across, down   floats from a row of A to the next, and from a column to the next
 */
struct product {
	const float *a, *b;
	float *c;
	size_t across, down;
	int m, n, k;
};

INLINE void product_block(const struct product *p, int i, int j, int vectors, int add)
{
	vecf sum[PRODUCT_ROWS][2];
	const float *a = p->a + (size_t)i * p->across, *b = p->b + j;
	float *c = p->c + (size_t)i * (size_t)p->n + (size_t)j;

	for (int r = 0; r < PRODUCT_ROWS; r++)
		for (int v = 0; v < vectors; v++)
			sum[r][v] = add ? *(vecf *)(c + r * p->n + v * WIDE_LANES) : (vecf){ 0 };
	for (int k = 0; k < p->k; k++) {
		vecf b0 = *(const vecf *)b, b1 = { 0 };

		if (vectors == 2)
			b1 = *(const vecf *)(b + WIDE_LANES);
		for (int r = 0; r < PRODUCT_ROWS; r++) {
			float x = a[(size_t)r * p->across];

			sum[r][0] += b0 * x;
			if (vectors == 2)
				sum[r][1] += b1 * x;
		}
		a += p->down;
		b += p->n;
	}
	for (int r = 0; r < PRODUCT_ROWS; r++)
		for (int v = 0; v < vectors; v++)
			*(vecf *)(c + r * p->n + v * WIDE_LANES) = sum[r][v];
}

INLINE void product(const struct product *p, int add)
{
	int j = 0;

	/* Columns of B stay in the cache. */
	for (; j + 2 * WIDE_LANES <= p->n; j += 2 * WIDE_LANES)
		for (int i = 0; i < p->m; i += PRODUCT_ROWS)
			product_block(p, i, j, 2, add);
	for (int i = 0; j < p->n && i < p->m; i += PRODUCT_ROWS)
		product_block(p, i, j, 1, add);
}

#endif
