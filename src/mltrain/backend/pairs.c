/*
 * Matrix products of bfloat16 with sums in single precision, by AVX512_BF16's vdpbf16ps: twice the
 * multiplications of an f32 product in the same time. It multiplies pairs, so the elements of A and
 * B that meet lie two and two in words of 32 bits (the first in the lower half), an odd one with 0.
 *
 * Callers see to it that the CPU has the instructions (dnn_isa() is DNN_AVX512_BF16 or more).
 */
#include "backend/winograd.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define BF16   __attribute__((target("arch=x86-64-v4,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) BF16

BF16 void pairs_of_columns(const float *from, size_t n, uint32_t *to)
{
	const float *end = from + n;

	for (; from < end; from += 2 * PAIRS_LANES, to += PAIRS_LANES) {
		__m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + PAIRS_LANES);

		_mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
	}
}

/* Lane i of the first and lane i of the second, next to each other. */
INLINE __m512i interleave(__m512 first, __m512 second)
{
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25,
		9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

	return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

BF16 void pairs_of_rows(const float *from, int rows, int columns, uint32_t *to)
{
	for (int r = 0; r < rows; r += 2, from += 2 * columns, to += columns)
		for (int j = 0; j < columns; j += PAIRS_LANES) {
			__m512 first = _mm512_loadu_ps(from + j), second = _mm512_setzero_ps();

			if (r + 1 < rows)
				second = _mm512_loadu_ps(from + columns + j);
			_mm512_storeu_si512(to + j, interleave(first, second));
		}
}

INLINE __m512bh all_lanes(uint32_t pair)
{
	return (__m512bh)_mm512_set1_epi32((int)pair);
}

INLINE void block(const struct pairs_product *p, int i, int j, int vectors, int add)
{
	__m512 sum[PAIRS_ROWS][2];
	const uint32_t *a = p->a + (size_t)i * p->across, *b = p->b + j;
	float *c = p->c + (size_t)i * (size_t)p->n + (size_t)j;

	for (int r = 0; r < PAIRS_ROWS; r++)
		for (int v = 0; v < vectors; v++)
			sum[r][v] = add ? _mm512_loadu_ps(c + r * p->n + v * PAIRS_LANES)
					: _mm512_setzero_ps();
	for (int k = 0; k < p->k; k++, a += p->down, b += p->n) {
		__m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = b0;

		if (vectors == 2)
			b1 = (__m512bh)_mm512_loadu_si512(b + PAIRS_LANES);
		for (int r = 0; r < PAIRS_ROWS; r++) {
			__m512bh x = all_lanes(a[(size_t)r * p->across]);

			sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0);
			if (vectors == 2)
				sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
		}
	}
	for (int r = 0; r < PAIRS_ROWS; r++)
		for (int v = 0; v < vectors; v++)
			_mm512_storeu_ps(c + r * p->n + v * PAIRS_LANES, sum[r][v]);
}

BF16 void pairs_product(const struct pairs_product *p, int add)
{
	int j = 0;

	/* Columns of B stay in the cache. */
	for (; j + 2 * PAIRS_LANES <= p->n; j += 2 * PAIRS_LANES)
		for (int i = 0; i < p->m; i += PAIRS_ROWS)
			block(p, i, j, 2, add);
	for (int i = 0; j < p->n && i < p->m; i += PAIRS_ROWS)
		block(p, i, j, 1, add);
}

#else

/* No caller gets here: no other processor has the instructions. */
void pairs_of_columns(const float *from, size_t n, uint32_t *to)
{
	(void)from, (void)n, (void)to;
	abort();
}

void pairs_of_rows(const float *from, int rows, int columns, uint32_t *to)
{
	(void)from, (void)rows, (void)columns, (void)to;
	abort();
}

void pairs_product(const struct pairs_product *p, int add)
{
	(void)p, (void)add;
	abort();
}

#endif
