/*
 * Matrix products of bfloat16 with sums in single precision, by AVX512_BF16's vdpbf16ps: twice the
 * multiplications of an f32 product in the same time. It multiplies pairs, so the elements of A and
 * B that meet lie two and two in words of 32 bits (the first in the lower half), an odd one with 0.
 *
 * Callers see to it that the CPU has the instructions (dnn_isa() is DNN_AVX512_BF16 or more).
 */
#ifndef MLT_BACKEND_PAIRS_H
#define MLT_BACKEND_PAIRS_H

#include "base/base.h"

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

#endif
