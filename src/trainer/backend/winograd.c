#include "trainer/backend/winograd.h"

#include "trainer/backend/parallel.h"
#include "trainer/backend/wide.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define TILE   4 /* outputs of a tile, down and across */
#define INPUT  8 /* inputs of a tile, and points */
#define KERNEL 5
#define PAD    2
#define LANES  16

/* A point's matrix begins this many floats behind the end of the one before, so that the 64 rows
 * that a tile is spread over do not fall into one set of the cache. */
#define SKEW (LANES * 5)

int winograd_fits(
	struct winograd *g, int n, int c, int k, int h, int w, int size, int stride, int pad)
{
	if (size != KERNEL || stride != 1 || pad != PAD || c % LANES || k % LANES)
		return 0;
	*g = (struct winograd){ .n = n, .c = c, .k = k, .h = h, .w = w };
	g->tiles_down = (h + TILE - 1) / TILE;
	g->tiles_across = (w + TILE - 1) / TILE;
	g->tiles = (size_t)n * (size_t)g->tiles_down * (size_t)g->tiles_across;
	g->v_stride = g->tiles * (size_t)c + SKEW;
	g->m_stride = g->tiles * (size_t)k + SKEW;
	return 1;
}

size_t winograd_v(const struct winograd *g)
{
	return WINOGRAD_POINTS * g->v_stride;
}

size_t winograd_m(const struct winograd *g)
{
	return WINOGRAD_POINTS * g->m_stride;
}

size_t winograd_u(const struct winograd *g)
{
	return (size_t)WINOGRAD_POINTS * (size_t)g->c * (size_t)g->k;
}

/* --- transforms of one line; d and t are read and written every so many elements ----------- */

/* t = B'd */
INLINE void line_input(const vec16 *d, int ds, vec16 *t, int ts)
{
	vec16 d0 = d[0], d1 = d[ds], d2 = d[2 * ds], d3 = d[3 * ds], d4 = d[4 * ds], d5 = d[5 * ds],
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

/* d = Bt */
INLINE void line_input_back(const vec16 *t, int ts, vec16 *d, int ds)
{
	vec16 t0 = t[0], t7 = t[7 * ts];
	vec16 e1 = t[ts] + t[2 * ts], o1 = t[ts] - t[2 * ts];
	vec16 e2 = t[3 * ts] + t[4 * ts], o2 = t[3 * ts] - t[4 * ts];
	vec16 e3 = t[5 * ts] + t[6 * ts], o3 = t[5 * ts] - t[6 * ts];

	d[0] = t0;
	d[ds] = o1 + o2 * 0.5f + o3 * 2.0f - t7;
	d[2 * ds] = e1 + e2 * 0.25f + e3 * 4.0f - t0 * 5.25f;
	d[3 * ds] = t7 * 5.25f - o1 * 4.25f - (o2 + o3) * 2.5f;
	d[4 * ds] = t0 * 5.25f - e1 * 4.25f - e2 * 1.25f - e3 * 5.0f;
	d[5 * ds] = o1 + o2 * 2.0f + o3 * 0.5f - t7 * 5.25f;
	d[6 * ds] = e1 + e2 + e3 - t0;
	d[7 * ds] = t7;
}

/* y = A'm */
INLINE void line_output(const vec16 *m, int ms, vec16 *y, int ys)
{
	vec16 e1 = m[ms] + m[2 * ms], o1 = m[ms] - m[2 * ms];
	vec16 e2 = m[3 * ms] + m[4 * ms], o2 = m[3 * ms] - m[4 * ms];
	vec16 e3 = m[5 * ms] + m[6 * ms], o3 = m[5 * ms] - m[6 * ms];

	y[0] = m[0] + e1 + e2 + e3;
	y[ys] = o1 + o2 * 2.0f + o3 * 0.5f;
	y[2 * ys] = e1 + e2 * 4.0f + e3 * 0.25f;
	y[3 * ys] = o1 + o2 * 8.0f + o3 * 0.125f + m[7 * ms];
}

/* m = Ay */
INLINE void line_output_back(const vec16 *y, int ys, vec16 *m, int ms)
{
	vec16 y0 = y[0], y1 = y[ys], y2 = y[2 * ys], y3 = y[3 * ys], e, o;

	m[0] = y0;
	e = y0 + y2;
	o = y1 + y3;
	m[ms] = e + o;
	m[2 * ms] = e - o;
	e = y0 + y2 * 4.0f;
	o = y1 * 2.0f + y3 * 8.0f;
	m[3 * ms] = e + o;
	m[4 * ms] = e - o;
	e = y0 + y2 * 0.25f;
	o = y1 * 0.5f + y3 * 0.125f;
	m[5 * ms] = e + o;
	m[6 * ms] = e - o;
	m[7 * ms] = y3;
}

#define S1 (-2.0f / 9)  /* scales of the points 1 and -1, */
#define S2 (1.0f / 90)  /* 2 and -2, */
#define S3 (32.0f / 45) /* 1/2 and -1/2 */

/* u = Gw */
INLINE void line_weights(const vec16 *w, int ws, vec16 *u, int us)
{
	vec16 w0 = w[0], w1 = w[ws], w2 = w[2 * ws], w3 = w[3 * ws], w4 = w[4 * ws], e, o;

	u[0] = w0;
	e = (w0 + w2 + w4) * S1;
	o = (w1 + w3) * S1;
	u[us] = e + o;
	u[2 * us] = e - o;
	e = (w0 + w2 * 4.0f + w4 * 16.0f) * S2;
	o = (w1 * 2.0f + w3 * 8.0f) * S2;
	u[3 * us] = e + o;
	u[4 * us] = e - o;
	e = (w0 + w2 * 0.25f + w4 * 0.0625f) * S3;
	o = (w1 * 0.5f + w3 * 0.125f) * S3;
	u[5 * us] = e + o;
	u[6 * us] = e - o;
	u[7 * us] = w4;
}

/* w = G'u */
INLINE void line_weights_back(const vec16 *u, int us, vec16 *w, int ws)
{
	vec16 e1 = (u[us] + u[2 * us]) * S1, o1 = (u[us] - u[2 * us]) * S1;
	vec16 e2 = (u[3 * us] + u[4 * us]) * S2, o2 = (u[3 * us] - u[4 * us]) * S2;
	vec16 e3 = (u[5 * us] + u[6 * us]) * S3, o3 = (u[5 * us] - u[6 * us]) * S3;

	w[0] = u[0] + e1 + e2 + e3;
	w[ws] = o1 + o2 * 2.0f + o3 * 0.5f;
	w[2 * ws] = e1 + e2 * 4.0f + e3 * 0.25f;
	w[3 * ws] = o1 + o2 * 8.0f + o3 * 0.125f;
	w[4 * ws] = e1 + e2 * 16.0f + e3 * 0.0625f + u[7 * us];
}

/* --- whole images -------------------------------------------------------------------------- */

struct call {
	const struct winograd *g;
	const float *from, *bias;
	float *to, *partial;
	int relu;
};

/* The images of a thread are those from *from on, before *to. */
INLINE void images_of(const struct winograd *g, int me, int of, int *from, int *to)
{
	*from = (int)parallel_from((size_t)g->n, 1, me, of);
	*to = (int)parallel_from((size_t)g->n, 1, me + 1, of);
}

/* Sixteen channels of an image. */
INLINE size_t plane_at(const struct winograd *g, int n, int channels, int block)
{
	return ((size_t)n * (size_t)(channels / LANES) + (size_t)block) * (size_t)(g->h * g->w) *
		LANES;
}

/* Sixteen channels of a tile, in the row of V or M that is the tile's. */
INLINE size_t tile_at(const struct winograd *g, int n, int i, int j, int channels, int block)
{
	size_t tile = ((size_t)n * (size_t)g->tiles_down + (size_t)i) * (size_t)g->tiles_across;

	return (tile + (size_t)j) * (size_t)channels + (size_t)(block * LANES);
}

/* Sixteen channels of a pixel. */
INLINE vec16 *pixel(const struct winograd *g, const float *plane, int y, int x)
{
	return (vec16 *)(plane + (size_t)(y * g->w + x) * LANES);
}

/* A tile's 8x8 inputs with zeros beyond the edge. */
INLINE void load_input(const struct winograd *g, const float *plane, int i, int j, vec16 *d)
{
	int top = i * TILE - PAD, left = j * TILE - PAD;

	for (int r = 0; r < INPUT; r++)
		for (int s = 0; s < INPUT; s++) {
			int y = top + r, x = left + s;

			if (y < 0 || y >= g->h || x < 0 || x >= g->w)
				d[r * INPUT + s] = (vec16){ 0 };
			else
				d[r * INPUT + s] = *pixel(g, plane, y, x);
		}
}

INLINE void input_tile(const struct winograd *g, const float *plane, int i, int j, float *v)
{
	vec16 d[INPUT * INPUT], t[INPUT * INPUT];

	load_input(g, plane, i, j, d);
	for (int s = 0; s < INPUT; s++)
		line_input(d + s, INPUT, t + s, INPUT);
	for (int r = 0; r < INPUT; r++)
		line_input(t + r * INPUT, 1, d + r * INPUT, 1);
	for (int p = 0; p < WINOGRAD_POINTS; p++)
		*(vec16 *)(v + (size_t)p * g->v_stride) = d[p];
}

WIDE static void input_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	int from, to;

	images_of(g, me, of, &from, &to);
	for (int n = from; n < to; n++)
		for (int i = 0; i < g->tiles_down; i++)
			for (int j = 0; j < g->tiles_across; j++)
				for (int b = 0; b < g->c / LANES; b++)
					input_tile(g, a->from + plane_at(g, n, g->c, b), i, j,
						a->to + tile_at(g, n, i, j, g->c, b));
}

void winograd_input(const struct winograd *g, const float *x, float *v)
{
	struct call a = { .g = g, .from = x, .to = v };

	parallel_run(input_in_thread, &a);
}

INLINE void output_tile(const struct winograd *g, const float *m, const vec16 *bias, int relu,
	int i, int j, float *plane)
{
	vec16 d[INPUT * INPUT], t[TILE * INPUT], y[TILE * TILE];
	int rows = g->h - i * TILE < TILE ? g->h - i * TILE : TILE;
	int columns = g->w - j * TILE < TILE ? g->w - j * TILE : TILE;

	for (int p = 0; p < WINOGRAD_POINTS; p++)
		d[p] = *(const vec16 *)(m + (size_t)p * g->m_stride);
	for (int s = 0; s < INPUT; s++)
		line_output(d + s, INPUT, t + s, INPUT);
	for (int r = 0; r < TILE; r++)
		line_output(t + r * INPUT, 1, y + r * TILE, 1);
	for (int r = 0; r < rows; r++)
		for (int s = 0; s < columns; s++) {
			vec16 v = y[r * TILE + s] + *bias;

			if (relu)
				v = (vec16)((mask16)v & ~(mask16)(v < 0));
			*pixel(g, plane, i * TILE + r, j * TILE + s) = v;
		}
}

WIDE static void output_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	int from, to;

	images_of(g, me, of, &from, &to);
	for (int n = from; n < to; n++)
		for (int i = 0; i < g->tiles_down; i++)
			for (int j = 0; j < g->tiles_across; j++)
				for (int b = 0; b < g->k / LANES; b++)
					output_tile(g,
						a->from + tile_at(g, n, i, j, g->k, b),
						(const vec16 *)(a->bias + b * LANES), a->relu, i, j,
						a->to + plane_at(g, n, g->k, b));
}

void winograd_output(
	const struct winograd *g, const float *m, const float *bias, int relu, float *y)
{
	struct call a = { .g = g, .from = m, .bias = bias, .to = y, .relu = relu };

	parallel_run(output_in_thread, &a);
}

INLINE void output_back_tile(
	const struct winograd *g, const float *plane, int i, int j, float *m, vec16 *sum)
{
	vec16 y[TILE * TILE], t[INPUT * TILE], d[INPUT * INPUT];

	for (int r = 0; r < TILE; r++)
		for (int s = 0; s < TILE; s++) {
			int down = i * TILE + r, across = j * TILE + s;

			if (down >= g->h || across >= g->w)
				y[r * TILE + s] = (vec16){ 0 };
			else
				y[r * TILE + s] = *pixel(g, plane, down, across);
			*sum += y[r * TILE + s];
		}
	for (int s = 0; s < TILE; s++)
		line_output_back(y + s, TILE, t + s, TILE);
	for (int r = 0; r < INPUT; r++)
		line_output_back(t + r * TILE, 1, d + r * INPUT, 1);
	for (int p = 0; p < WINOGRAD_POINTS; p++)
		*(vec16 *)(m + (size_t)p * g->m_stride) = d[p];
}

WIDE static void output_back_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	float *sums = a->partial + (size_t)me * (size_t)g->k;
	int from, to;

	images_of(g, me, of, &from, &to);
	memset(sums, 0, (size_t)g->k * sizeof(float));
	for (int n = from; n < to; n++)
		for (int i = 0; i < g->tiles_down; i++)
			for (int j = 0; j < g->tiles_across; j++)
				for (int b = 0; b < g->k / LANES; b++) {
					vec16 sum = *(vec16 *)(sums + b * LANES);

					output_back_tile(g, a->from + plane_at(g, n, g->k, b), i, j,
						a->to + tile_at(g, n, i, j, g->k, b),
						&sum);
					*(vec16 *)(sums + b * LANES) = sum;
				}
}

void winograd_output_back(const struct winograd *g, const float *dy, float *dm, float *db,
	float *partial, int threads)
{
	struct call a = { .g = g, .from = dy, .to = dm, .partial = partial };

	memset(partial, 0, (size_t)threads * (size_t)g->k * sizeof(float));
	parallel_run(output_back_in_thread, &a);
	for (int k = 0; k < g->k; k++) {
		double sum = 0;

		for (int t = 0; t < threads; t++)
			sum += partial[t * g->k + k];
		db[k] = (float)sum;
	}
}

/* Neighbouring tiles share inputs, so their gradients add up. */
INLINE void input_back_tile(const struct winograd *g, const float *v, int i, int j, float *plane)
{
	vec16 t[INPUT * INPUT], d[INPUT * INPUT];
	int top = i * TILE - PAD, left = j * TILE - PAD;

	for (int p = 0; p < WINOGRAD_POINTS; p++)
		d[p] = *(const vec16 *)(v + (size_t)p * g->v_stride);
	for (int s = 0; s < INPUT; s++)
		line_input_back(d + s, INPUT, t + s, INPUT);
	for (int r = 0; r < INPUT; r++)
		line_input_back(t + r * INPUT, 1, d + r * INPUT, 1);
	for (int r = 0; r < INPUT; r++)
		for (int s = 0; s < INPUT; s++) {
			int y = top + r, x = left + s;

			if (y >= 0 && y < g->h && x >= 0 && x < g->w)
				*pixel(g, plane, y, x) += d[r * INPUT + s];
		}
}

WIDE static void input_back_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	int from, to;

	images_of(g, me, of, &from, &to);
	for (int n = from; n < to; n++)
		for (int b = 0; b < g->c / LANES; b++) {
			float *plane = a->to + plane_at(g, n, g->c, b);

			memset(plane, 0, (size_t)(g->h * g->w) * LANES * sizeof(float));
			for (int i = 0; i < g->tiles_down; i++)
				for (int j = 0; j < g->tiles_across; j++)
					input_back_tile(g,
						a->from + tile_at(g, n, i, j, g->c, b),
						i, j, plane);
		}
}

void winograd_input_back(const struct winograd *g, const float *dv, float *dx)
{
	struct call a = { .g = g, .from = dv, .to = dx };

	parallel_run(input_back_in_thread, &a);
}

/* --- weights ------------------------------------------------------------------------------- */

/* Sixteen columns of one row of the [c][k] matrices: w has 25 of these, u 64. */
INLINE void weights_lane(const float *w, float *u, size_t matrix)
{
	vec16 a[KERNEL * KERNEL], t[INPUT * KERNEL], d[INPUT * INPUT];

	for (int p = 0; p < KERNEL * KERNEL; p++)
		a[p] = *(const vec16 *)(w + (size_t)p * matrix);
	for (int s = 0; s < KERNEL; s++)
		line_weights(a + s, KERNEL, t + s, KERNEL);
	for (int r = 0; r < INPUT; r++)
		line_weights(t + r * KERNEL, 1, d + r * INPUT, 1);
	for (int p = 0; p < WINOGRAD_POINTS; p++)
		*(vec16 *)(u + (size_t)p * matrix) = d[p];
}

INLINE void weights_back_lane(const float *u, float *w, size_t matrix)
{
	vec16 d[INPUT * INPUT], t[KERNEL * INPUT], a[KERNEL * KERNEL];

	for (int p = 0; p < WINOGRAD_POINTS; p++)
		d[p] = *(const vec16 *)(u + (size_t)p * matrix);
	for (int s = 0; s < INPUT; s++)
		line_weights_back(d + s, INPUT, t + s, INPUT);
	for (int r = 0; r < KERNEL; r++)
		line_weights_back(t + r * INPUT, 1, a + r * KERNEL, 1);
	for (int p = 0; p < KERNEL * KERNEL; p++)
		*(vec16 *)(w + (size_t)p * matrix) = a[p];
}

WIDE static void weights_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	size_t matrix = (size_t)a->g->c * (size_t)a->g->k;
	size_t to = parallel_from(matrix, LANES, me + 1, of);

	for (size_t at = parallel_from(matrix, LANES, me, of); at < to; at += LANES)
		weights_lane(a->from + at, a->to + at, matrix);
}

WIDE static void weights_back_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	size_t matrix = (size_t)a->g->c * (size_t)a->g->k;
	size_t to = parallel_from(matrix, LANES, me + 1, of);

	for (size_t at = parallel_from(matrix, LANES, me, of); at < to; at += LANES)
		weights_back_lane(a->from + at, a->to + at, matrix);
}

void winograd_weights(const struct winograd *g, const float *w, float *u)
{
	struct call a = { .g = g, .from = w, .to = u };

	parallel_run(weights_in_thread, &a);
}

void winograd_weights_back(const struct winograd *g, const float *du, float *dw)
{
	struct call a = { .g = g, .from = du, .to = dw };

	parallel_run(weights_back_in_thread, &a);
}
