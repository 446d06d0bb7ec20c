#include "backend/winograd_line.h"

#include "backend/winograd.h"
#include "backend/parallel.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES WIDE_LANES

/* A vector of columns of one row of the [c][k] matrices: w has as many of these as a kernel has
 * elements, u as there are points. */
INLINE void weights_lane(const float *w, float *u, size_t matrix)
{
	vecf a[KERNEL * KERNEL], t[INPUT * KERNEL], d[INPUT * INPUT];

	for (int p = 0; p < KERNEL * KERNEL; p++)
		a[p] = *(const vecf *)(w + (size_t)p * matrix);
	for (int s = 0; s < KERNEL; s++)
		line_weights(a + s, KERNEL, t + s, KERNEL);
	for (int r = 0; r < INPUT; r++)
		line_weights(t + r * KERNEL, 1, d + r * INPUT, 1);
	for (int p = 0; p < POINTS; p++)
		*(vecf *)(u + (size_t)p * matrix) = d[p];
}

INLINE void weights_back_lane(const float *u, float *w, size_t matrix)
{
	vecf d[INPUT * INPUT], t[KERNEL * INPUT], a[KERNEL * KERNEL];

	for (int p = 0; p < POINTS; p++)
		d[p] = *(const vecf *)(u + (size_t)p * matrix);
	for (int s = 0; s < INPUT; s++)
		line_weights_back(d + s, INPUT, t + s, INPUT);
	for (int r = 0; r < KERNEL; r++)
		line_weights_back(t + r * INPUT, 1, a + r * KERNEL, 1);
	for (int p = 0; p < KERNEL * KERNEL; p++)
		*(vecf *)(w + (size_t)p * matrix) = a[p];
}

struct weights_call {
	const struct winograd *g;
	const float *w;
	float *u, *ut, *sums, *dw, *db;
};

/* ut [points][k][c] of a vector of rows and of columns of u [points][c][k], from c and k on: whole
 * lines of the cache are read and written. */
INLINE void transpose_block(const struct winograd *g, const float *u, float *ut, size_t c, size_t k)
{
	size_t matrix = (size_t)g->c * (size_t)g->k;

	for (size_t p = 0; p < POINTS; p++)
		for (size_t i = 0; i < LANES; i++)
			for (size_t j = 0; j < LANES; j++)
				ut[p * matrix + (k + i) * (size_t)g->c + c + j] =
					u[p * matrix + (c + j) * (size_t)g->k + k + i];
}

WIDE_FIXED static void weights_in_thread(void *ctx, int me, int of)
{
	const struct weights_call *a = ctx;
	const struct winograd *g = a->g;
	size_t matrix = (size_t)g->c * (size_t)g->k, across = (size_t)g->k / LANES;
	size_t blocks = (size_t)g->c / LANES * across, to = parallel_from(blocks, 1, me + 1, of);

	for (size_t b = parallel_from(blocks, 1, me, of); b < to; b++) {
		size_t c = b / across * LANES, k = b % across * LANES;

		for (size_t i = 0; i < LANES; i++) {
			size_t at = (c + i) * (size_t)g->k + k;

			weights_lane(a->w + at, a->u + at, matrix);
		}
		if (a->ut)
			transpose_block(g, a->u, a->ut, c, k);
	}
}

void winograd_weights(const struct winograd *g, const float *w, float *u, float *ut)
{
	struct weights_call a = { .g = g, .w = w, .u = u, .ut = ut };

	parallel_run(weights_in_thread, &a);
}

struct pairs_call {
	const struct winograd *g;
	const float *u, *ut;
	uint32_t *pairs, *pairs_t;
};

static void pairs_in_thread(void *ctx, int me, int of)
{
	const struct pairs_call *a = ctx;
	const struct winograd *g = a->g;
	size_t matrix = (size_t)g->c * (size_t)g->k, to = parallel_from(POINTS, 1, me + 1, of);

	for (size_t p = parallel_from(POINTS, 1, me, of); p < to; p++) {
		pairs_of_rows(a->u + p * matrix, g->c, g->k, a->pairs + p * matrix / 2);
		if (a->ut)
			pairs_of_rows(a->ut + p * matrix, g->k, g->c, a->pairs_t + p * matrix / 2);
	}
}

void winograd_pairs(const struct winograd *g, const float *u, const float *ut, uint32_t *pairs,
	uint32_t *pairs_t)
{
	struct pairs_call a = { g, u, ut, pairs, pairs_t };

	parallel_run(pairs_in_thread, &a);
}

WIDE_FIXED static void weights_back_in_thread(void *ctx, int me, int of)
{
	const struct weights_call *a = ctx;
	const struct winograd *g = a->g;
	size_t matrix = (size_t)g->c * (size_t)g->k, to = parallel_from(matrix, LANES, me + 1, of);
	float *du = a->sums, *db = a->sums + winograd_u(g) * (size_t)g->threads;

	for (size_t at = parallel_from(matrix, LANES, me, of); at < to; at += LANES) {
		for (size_t t = 1; t < (size_t)of; t++)
			for (size_t p = 0; p < POINTS; p++)
				*(vecf *)(du + p * matrix + at) +=
					*(vecf *)(du + t * winograd_u(g) + p * matrix + at);
		weights_back_lane(du + at, a->dw + at, matrix);
	}
	for (int k = 0; me == 0 && a->db && k < g->k; k++) {
		double sum = 0;

		for (int t = 0; t < of; t++)
			sum += db[t * g->k + k];
		a->db[k] = (float)sum;
	}
}

void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db)
{
	struct weights_call a = { .g = g, .sums = sums, .dw = dw, .db = db };

	parallel_run(weights_back_in_thread, &a);
}
