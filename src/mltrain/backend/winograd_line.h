/*
 * The transforms of winograd.h in one dimension, of a vector of channels at once; two dimensions
 * are lines down, then lines across. Arrays are read and written every so many elements (ds, ts,
 * …). Files that include this are compiled for each size of kernel, WINOGRAD_KERNEL:
 *
 *   line_input         t = B'd   of inputs, to points
 *   line_input_back    d = Bt
 *   line_output        y = A'm   of points, to outputs
 *   line_output_back   m = Ay
 *   line_weights       u = Gw    of a kernel, to points
 *   line_weights_back  w = G'u
 */
#pragma once

#include "backend/winograd.h"
#include "tensor/wide.h"

#define KERNEL WINOGRAD_KERNEL
#define PAD    (KERNEL / 2)
#define TILE   WINOGRAD_TILE
#define INPUT  (TILE + KERNEL - 1) /* inputs of a tile, and points */
#define POINTS (INPUT * INPUT)

/*
 * Lavin and Gray, 2016, section 4: 4 outputs and a kernel of 3 (section 4.2) at the points 0, 1,
 * -1, 2, -2 and infinity; a kernel of 5 also at 1/2 and -1/2.
 */
#define PAIRS      (INPUT / 2 - 1) /* of points that differ in sign */
#define POWERS_MAX 5

static const float powers[][POWERS_MAX] = {
	{ 1, 1, 1, 1, 1 },
	{ 1, 2, 4, 8, 16 },
	{ 1, 0.5f, 0.25f, 0.125f, 0.0625f },
};

/* Scales of the point 0 and of each pair. */
static const float scale_output[] = { 1, 1, 1, 1 };

#if KERNEL == 3
static const float scale_weights[] = { 0.25f, -1.0f / 6, 1.0f / 24 };
#else
static const float scale_weights[] = { 1, -2.0f / 9, 1.0f / 90, 32.0f / 45 };
#endif

/* Values at the points of a polynomial of n coefficients. */
INLINE void line_values(const vecf *a, int as, int n, const float *scale, vecf *t, int ts)
{
	vecf c[POWERS_MAX];

	for (int r = 0; r < n; r++)
		c[r] = a[r * as];
	t[0] = c[0] * scale[0];
#pragma GCC unroll 8
	for (int i = 0; i < PAIRS; i++) {
		vecf e = c[0], o = c[1] * powers[i][1]; /* even and odd powers */

#pragma GCC unroll 8
		for (int r = 2; r < n; r++)
			if (r % 2)
				o += c[r] * powers[i][r];
			else
				e += c[r] * powers[i][r];
		e *= scale[1 + i];
		o *= scale[1 + i];
		t[(1 + 2 * i) * ts] = e + o;
		t[(2 + 2 * i) * ts] = e - o;
	}
	t[(INPUT - 1) * ts] = c[n - 1];
}

/* The transpose of that: n sums of the points. */
INLINE void line_sums(const vecf *t, int ts, const float *scale, vecf *a, int as, int n)
{
	vecf e[PAIRS], o[PAIRS];

#pragma GCC unroll 8
	for (int i = 0; i < PAIRS; i++) {
		e[i] = (t[(1 + 2 * i) * ts] + t[(2 + 2 * i) * ts]) * scale[1 + i];
		o[i] = (t[(1 + 2 * i) * ts] - t[(2 + 2 * i) * ts]) * scale[1 + i];
	}
#pragma GCC unroll 8
	for (int r = 0; r < n; r++) {
		const vecf *part = r % 2 ? o : e;
		vecf sum = part[0];

		if (r == 0)
			sum = t[0] * scale[0] + sum;
#pragma GCC unroll 8
		for (int i = 1; i < PAIRS; i++)
			sum += part[i] * powers[i][r];
		if (r == n - 1)
			sum += t[(INPUT - 1) * ts];
		a[r * as] = sum;
	}
}

INLINE void line_output(const vecf *m, int ms, vecf *y, int ys)
{
	line_sums(m, ms, scale_output, y, ys, TILE);
}

INLINE void line_output_back(const vecf *y, int ys, vecf *m, int ms)
{
	line_values(y, ys, TILE, scale_output, m, ms);
}

INLINE void line_weights(const vecf *w, int ws, vecf *u, int us)
{
	line_values(w, ws, KERNEL, scale_weights, u, us);
}

INLINE void line_weights_back(const vecf *u, int us, vecf *w, int ws)
{
	line_sums(u, us, scale_weights, w, ws, KERNEL);
}

#if KERNEL == 3

INLINE void line_input(const vecf *d, int ds, vecf *t, int ts)
{
	vecf d1 = d[ds], d2 = d[2 * ds], d3 = d[3 * ds], d4 = d[4 * ds], e, o;

	t[0] = d[0] * 4.0f - d2 * 5.0f + d4;
	e = d4 - d2 * 4.0f;
	o = d3 - d1 * 4.0f;
	t[ts] = e + o;
	t[2 * ts] = e - o;
	e = d4 - d2;
	o = (d3 - d1) * 2.0f;
	t[3 * ts] = e + o;
	t[4 * ts] = e - o;
	t[5 * ts] = d1 * 4.0f - d3 * 5.0f + d[5 * ds];
}

INLINE void line_input_back(const vecf *t, int ts, vecf *d, int ds)
{
	vecf t0 = t[0], t5 = t[5 * ts];
	vecf e1 = t[ts] + t[2 * ts], o1 = t[ts] - t[2 * ts];
	vecf e2 = t[3 * ts] + t[4 * ts], o2 = t[3 * ts] - t[4 * ts];

	d[0] = t0 * 4.0f;
	d[ds] = (t5 - o1) * 4.0f - o2 * 2.0f;
	d[2 * ds] = -(t0 * 5.0f + e1 * 4.0f + e2);
	d[3 * ds] = o1 + o2 * 2.0f - t5 * 5.0f;
	d[4 * ds] = t0 + e1 + e2;
	d[5 * ds] = t5;
}

#else

INLINE void line_input(const vecf *d, int ds, vecf *t, int ts)
{
	vecf d0 = d[0], d1 = d[ds], d2 = d[2 * ds], d3 = d[3 * ds], d4 = d[4 * ds], d5 = d[5 * ds],
	     d6 = d[6 * ds], d7 = d[7 * ds], e, o;

	t[0] = d0 - d6 + (d4 - d2) * 5.25f;
	e = d2 + d6 - d4 * 4.25f;
	o = d1 + d5 - d3 * 4.25f;
	t[ts] = e + o;
	t[2 * ts] = e - o;
	e = d6 + d2 * 0.25f - d4 * 1.25f;
	o = d1 * 0.5f - d3 * 2.5f + d5 * 2.0f;
	t[3 * ts] = e + o;
	t[4 * ts] = e - o;
	e = d6 + d2 * 4.0f - d4 * 5.0f;
	o = d1 * 2.0f - d3 * 2.5f + d5 * 0.5f;
	t[5 * ts] = e + o;
	t[6 * ts] = e - o;
	t[7 * ts] = d7 - d1 + (d3 - d5) * 5.25f;
}

INLINE void line_input_back(const vecf *t, int ts, vecf *d, int ds)
{
	vecf t0 = t[0], t7 = t[7 * ts];
	vecf e1 = t[ts] + t[2 * ts], o1 = t[ts] - t[2 * ts];
	vecf e2 = t[3 * ts] + t[4 * ts], o2 = t[3 * ts] - t[4 * ts];
	vecf e3 = t[5 * ts] + t[6 * ts], o3 = t[5 * ts] - t[6 * ts];

	d[0] = t0;
	d[ds] = o1 + o2 * 0.5f + o3 * 2.0f - t7;
	d[2 * ds] = e1 + e2 * 0.25f + e3 * 4.0f - t0 * 5.25f;
	d[3 * ds] = t7 * 5.25f - o1 * 4.25f - (o2 + o3) * 2.5f;
	d[4 * ds] = t0 * 5.25f - e1 * 4.25f - e2 * 1.25f - e3 * 5.0f;
	d[5 * ds] = o1 + o2 * 2.0f + o3 * 0.5f - t7 * 5.25f;
	d[6 * ds] = e1 + e2 + e3 - t0;
	d[7 * ds] = t7;
}

#endif

/*
 * Transforms weights and their gradients: two functions of struct winograd_code, and the backward
 * pass. Compiled for each size of kernel and width of vectors, like winograd.c, by names that say
 * which.
 */

#define WINOGRAD_NAMED(name, kernel, lanes)  name##_##kernel##_##lanes
#define WINOGRAD_NAMED_(name, kernel, lanes) WINOGRAD_NAMED(name, kernel, lanes)
#define WINOGRAD_NAME(name)                  WINOGRAD_NAMED_(name, WINOGRAD_KERNEL, WIDE_LANES)

#define winograd_weights      WINOGRAD_NAME(winograd_weights)
#define winograd_pairs        WINOGRAD_NAME(winograd_pairs)
#define winograd_weights_back WINOGRAD_NAME(winograd_weights_back)

void winograd_weights(const struct winograd *g, const float *w, float *u, float *ut);
void winograd_pairs(const struct winograd *g, const float *u, const float *ut, uint32_t *pairs,
	uint32_t *pairs_t);

/*
 * Compute the gradients of w and of the bias from the sums of the threads.
 *
 *   sums   each thread's dU [threads][points][c][k], then db [threads][k]; the first dU becomes the
 *          sum
 *   db     or NULL
 */
void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db);

/* --- products: of small matrices in a core's cache, inlined into functions of one width of vectors
 * (WIDE_FIXED): of 32 registers 16 hold sums, of AVX2's 16 eight --- */

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
