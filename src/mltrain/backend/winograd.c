#include "backend/winograd.h"

#include "backend/parallel.h"
#include "backend/window.h"
#include "backend/winograd_line.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES WIDE_LANES
#define BLOCK 16 /* channels that lie together in activations */

/* A point's matrix begins this many floats behind the end of the one before, so that the rows that
 * a tile is spread over do not fall into one set of the cache. */
#define SKEW 80

/* Elements of a point's matrix of weights. */
INLINE size_t matrix(const struct winograd *g)
{
	return (size_t)g->c * (size_t)g->k;
}

INLINE size_t tiles_of(const struct winograd *g)
{
	return (size_t)g->tiles_down * (size_t)g->tiles_across;
}

/* Floats from one point's matrix of a chunk to the next. */
INLINE size_t point_stride(const struct winograd *g, int channels)
{
	return (size_t)(g->chunk * channels) + SKEW;
}

/* A vector of channels of an image with its border. */
INLINE size_t padded(const struct winograd *g)
{
	return (size_t)((g->tiles_down + 1) * TILE) * (size_t)((g->tiles_across + 1) * TILE) *
		LANES;
}

/* A thread's own memory. */
struct room {
	float *v, *m, *planes, *du, *db;
	uint32_t *rounded; /* of a point's matrices: chunk/2 * (c + 2k) */
};

INLINE size_t rounded_size(const struct winograd *g)
{
	return (size_t)(g->chunk / 2) * (size_t)(g->c + 2 * g->k);
}

static size_t room_size(const struct winograd *g)
{
	return POINTS * (point_stride(g, g->c) + point_stride(g, g->k)) +
		(size_t)(g->c / LANES + 1) * padded(g) + rounded_size(g);
}

static size_t winograd_work(const struct winograd *g, int trains)
{
	size_t each = room_size(g) + (trains ? winograd_u(g) + (size_t)g->k : 0);

	return each * (size_t)g->threads;
}

/* Behind what threads have for themselves: what they gather of the weights' gradient. */
INLINE float *sums_of(const struct winograd *g, float *work)
{
	return work + room_size(g) * (size_t)g->threads;
}

INLINE struct room room_of(const struct winograd *g, float *work, int me)
{
	float *sums = sums_of(g, work);
	struct room r;

	r.v = work + room_size(g) * (size_t)me;
	r.m = r.v + POINTS * point_stride(g, g->c);
	r.planes = r.m + POINTS * point_stride(g, g->k);
	r.rounded = (uint32_t *)(r.planes + (size_t)(g->c / LANES + 1) * padded(g));
	r.du = sums + winograd_u(g) * (size_t)me;
	r.db = sums + winograd_u(g) * (size_t)g->threads + (size_t)(g->k * me);
	return r;
}

/* --- tiles --------------------------------------------------------------------------------- */

struct call {
	const struct winograd *g;
	const void *x, *y, *dy;
	const float *u, *bias;
	const uint32_t *pairs;
	uint8_t *winner;
	void *to;
	float *work;
	int relu, rows;
};

/* A vector of channels of an image; and their element of a pixel. */
INLINE size_t plane_at(int image, int channels, int vector, int h, int w)
{
	size_t channel = (size_t)vector * LANES;
	size_t block = (size_t)image * (size_t)(channels / BLOCK) + channel / BLOCK;

	return block * (size_t)h * (size_t)w * BLOCK + channel % BLOCK;
}

INLINE size_t pixel_at(size_t plane, int w, int y, int x)
{
	return plane + (size_t)(y * w + x) * BLOCK;
}

/* A vector of an image's channels as floats, with zeros around. */
INLINE void pad_plane(const struct winograd *g, const void *x, size_t plane, float *to)
{
	int across = (g->tiles_across + 1) * TILE;

	memset(to, 0, padded(g) * sizeof(float));
	for (int i = 0; i < g->h; i++)
		for (int j = 0; j < g->w; j++)
			wide_load((vecf *)(to + ((i + PAD) * across + j + PAD) * LANES), x,
				pixel_at(plane, g->w, i, j), g->bf16);
}

INLINE void input_tile(const struct winograd *g, const float *plane, int tile, float *v)
{
	int across = (g->tiles_across + 1) * TILE;
	const float *from = plane +
		((tile / g->tiles_across) * TILE * across + tile % g->tiles_across * TILE) * LANES;
	vecf t[POINTS], d[POINTS];

	for (int s = 0; s < INPUT; s++)
		line_input((const vecf *)(from + s * LANES), across, t + s, INPUT);
	for (int r = 0; r < INPUT; r++)
		line_input(t + r * INPUT, 1, d + r * INPUT, 1);
	for (int p = 0; p < POINTS; p++)
		*(vecf *)(v + (size_t)p * point_stride(g, g->c)) = d[p];
}

/* V of tiles from..to-1, counted over all images. */
INLINE void input_chunk(const struct call *a, size_t from, size_t to, const struct room *r)
{
	const struct winograd *g = a->g;

	for (int b = 0; b < g->c / LANES; b++) {
		int image = -1;

		for (size_t t = from; t < to; t++) {
			int n = (int)(t / tiles_of(g));

			if (n != image)
				pad_plane(g, a->x, plane_at(n, g->c, b, g->h, g->w), r->planes);
			image = n;
			input_tile(g, r->planes, (int)(t % tiles_of(g)),
				r->v + (t - from) * (size_t)g->c + (size_t)(b * LANES));
		}
	}
}

INLINE void store_pooled(const struct call *a, const vecf *y, int n, int b, int i, int j)
{
	const struct winograd *g = a->g;
	int h = g->h / 2, w = g->w / 2;
	size_t plane = plane_at(n, g->k, b, h, w);

	for (int r = 0; r < 2; r++)
		for (int s = 0; s < 2; s++) {
			int down = 2 * i + r, across = 2 * j + s;
			vecf best;
			veci winner;

			if (down >= h || across >= w)
				continue;
			window_forward(y + 2 * r * TILE + 2 * s, TILE, a->relu, &best, &winner);
			wide_store(a->to, pixel_at(plane, w, down, across), &best, g->bf16);
			if (a->winner)
				winner_store(a->winner + pixel_at(plane, w, down, across), &winner);
		}
}

INLINE void store_tile(const struct call *a, vecf *y, int n, int b, int i, int j)
{
	const struct winograd *g = a->g;
	size_t plane = plane_at(n, g->k, b, g->h, g->w);

	for (int r = 0; r < TILE && i * TILE + r < g->h; r++)
		for (int s = 0; s < TILE && j * TILE + s < g->w; s++) {
			vecf v = y[r * TILE + s];

			if (a->relu)
				v = (vecf)((veci)v & ~(veci)(v < 0));
			wide_store(a->to, pixel_at(plane, g->w, i * TILE + r, j * TILE + s), &v,
				g->bf16);
		}
}

INLINE void output_tile(const struct call *a, size_t tile, int b, const float *m)
{
	const struct winograd *g = a->g;
	vecf t[TILE * INPUT], y[TILE * TILE];
	int n = (int)(tile / tiles_of(g)), at = (int)(tile % tiles_of(g));
	int stride = (int)point_stride(g, g->k) / LANES;

	for (int s = 0; s < INPUT; s++)
		line_output((const vecf *)(m + (size_t)(s * LANES) * (size_t)stride),
			INPUT * stride, t + s, INPUT);
	for (int r = 0; r < TILE; r++)
		line_output(t + r * INPUT, 1, y + r * TILE, 1);
	for (int i = 0; a->bias && i < TILE * TILE; i++)
		y[i] += *(const vecf *)(a->bias + b * LANES);
	if (g->pool)
		store_pooled(a, y, n, b, at / g->tiles_across, at % g->tiles_across);
	else
		store_tile(a, y, n, b, at / g->tiles_across, at % g->tiles_across);
}

/* M = V U at one point, in single precision and in bfloat16. */
INLINE void forward_point(const struct call *a, int p, int rows, const float *v, float *m)
{
	const struct winograd *g = a->g;
	struct product vu = { v, a->u + (size_t)p * matrix(g), m, (size_t)g->c, 1, rows, g->k,
		g->c };

	product(&vu, 0);
}

static void forward_pairs(
	const struct call *a, int p, int rows, const float *v, float *m, uint32_t *rounded)
{
	const struct winograd *g = a->g;
	struct pairs_product vu = { rounded, a->pairs + (size_t)p * matrix(g) / 2, m,
		(size_t)(g->c / 2), 1, rows, g->k, g->c / 2 };

	pairs_of_columns(v, (size_t)rows * (size_t)g->c, rounded);
	pairs_product(&vu, 0);
}

INLINE void forward_chunk(const struct call *a, size_t from, size_t to, const struct room *r)
{
	const struct winograd *g = a->g;
	int rows = (int)((to - from + PRODUCT_ROWS - 1) / PRODUCT_ROWS * PRODUCT_ROWS);

	input_chunk(a, from, to, r);
	for (int p = 0; p < POINTS; p++) {
		const float *v = r->v + (size_t)p * point_stride(g, g->c);
		float *m = r->m + (size_t)p * point_stride(g, g->k);

		if (a->pairs)
			forward_pairs(a, p, rows, v, m, r->rounded);
		else
			forward_point(a, p, rows, v, m);
	}
	for (size_t t = from; t < to; t++)
		for (int b = 0; b < g->k / LANES; b++)
			output_tile(
				a, t, b, r->m + (t - from) * (size_t)g->k + (size_t)(b * LANES));
}

WIDE_FIXED static void forward_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	struct room r = room_of(g, a->work, me);
	size_t tiles = (size_t)a->rows * tiles_of(g);
	size_t end = parallel_from(tiles, PRODUCT_ROWS, me + 1, of);

	for (size_t t = parallel_from(tiles, PRODUCT_ROWS, me, of); t < end;
		t += (size_t)g->chunk) {
		size_t to = t + (size_t)g->chunk < end ? t + (size_t)g->chunk : end;

		forward_chunk(a, t, to, &r);
	}
}

static void winograd_forward(const struct winograd *g, int rows, const void *x, const float *u,
	const uint32_t *pairs, const float *bias, int relu, void *y, uint8_t *winner, float *work)
{
	struct call a = { .g = g,
		.rows = rows,
		.x = x,
		.u = u,
		.pairs = pairs,
		.bias = bias,
		.relu = relu,
		.to = y,
		.winner = winner,
		.work = work };

	parallel_run(forward_in_thread, &a);
}

/* --- backward ------------------------------------------------------------------------------ */

/* Spread a pooled gradient over a tile's outputs. */
INLINE void load_pooled(const struct call *a, int n, int b, int i, int j, vecf *y)
{
	const struct winograd *g = a->g;
	int h = g->h / 2, w = g->w / 2;
	size_t plane = plane_at(n, g->k, b, h, w);

	for (int r = 0; r < 2; r++)
		for (int s = 0; s < 2; s++) {
			int down = 2 * i + r, across = 2 * j + s;
			vecf dy = { 0 };
			veci winner = { 0 };

			if (down < h && across < w) {
				size_t at = pixel_at(plane, w, down, across);

				wide_load(&dy, a->dy, at, g->bf16);
				winner_load(&winner, a->winner + at);
			}
			window_backward(&dy, &winner, y + 2 * r * TILE + 2 * s, TILE);
		}
}

INLINE void load_tile(const struct call *a, int n, int b, int i, int j, vecf *y)
{
	const struct winograd *g = a->g;
	size_t plane = plane_at(n, g->k, b, g->h, g->w);

	for (int r = 0; r < TILE; r++)
		for (int s = 0; s < TILE; s++) {
			int down = i * TILE + r, across = j * TILE + s;
			size_t at = pixel_at(plane, g->w, down, across);
			vecf v = { 0 }, was;

			if (down < g->h && across < g->w) {
				wide_load(&v, a->dy, at, g->bf16);
				if (a->y) {
					wide_load(&was, a->y, at, g->bf16);
					v = (vecf)((veci)v & (veci)(was > 0));
				}
			}
			y[r * TILE + s] = v;
		}
}

INLINE void output_back_tile(const struct call *a, size_t tile, int b, float *m, float *db)
{
	const struct winograd *g = a->g;
	vecf y[TILE * TILE], t[INPUT * TILE], d[POINTS], sum = { 0 };
	int n = (int)(tile / tiles_of(g)), at = (int)(tile % tiles_of(g));

	if (g->pool)
		load_pooled(a, n, b, at / g->tiles_across, at % g->tiles_across, y);
	else
		load_tile(a, n, b, at / g->tiles_across, at % g->tiles_across, y);
	for (int i = 0; i < TILE * TILE; i++)
		sum += y[i];
	*(vecf *)(db + b * LANES) += sum;
	for (int s = 0; s < TILE; s++)
		line_output_back(y + s, TILE, t + s, TILE);
	for (int r = 0; r < INPUT; r++)
		line_output_back(t + r * TILE, 1, d + r * INPUT, 1);
	for (int p = 0; p < POINTS; p++)
		*(vecf *)(m + (size_t)p * point_stride(g, g->k)) = d[p];
}

/* Neighbouring tiles share inputs, so their gradients add up. */
INLINE void input_back_tile(const struct winograd *g, const float *v, int tile, float *plane)
{
	int across = (g->tiles_across + 1) * TILE, stride = (int)point_stride(g, g->c) / LANES;
	float *to = plane +
		((tile / g->tiles_across) * TILE * across + tile % g->tiles_across * TILE) * LANES;
	vecf t[POINTS], d[INPUT];

	for (int s = 0; s < INPUT; s++)
		line_input_back((const vecf *)(v + (size_t)(s * LANES) * (size_t)stride),
			INPUT * stride, t + s, INPUT);
	for (int r = 0; r < INPUT; r++) {
		line_input_back(t + r * INPUT, 1, d, 1);
		for (int s = 0; s < INPUT; s++)
			*(vecf *)(to + (r * across + s) * LANES) += d[s];
	}
}

INLINE void store_plane(const struct winograd *g, const float *from, void *dx, size_t plane)
{
	int across = (g->tiles_across + 1) * TILE;

	for (int i = 0; i < g->h; i++)
		for (int j = 0; j < g->w; j++)
			wide_store(dx, pixel_at(plane, g->w, i, j),
				(const vecf *)(from + ((i + PAD) * across + j + PAD) * LANES),
				g->bf16);
}

/* dx of a chunk's dV. A plane is gathered over its image's tiles, in whatever chunks they are. */
INLINE void input_back_chunk(const struct call *a, size_t from, size_t to, const struct room *r)
{
	const struct winograd *g = a->g;

	for (int b = 0; b < g->c / LANES; b++) {
		float *plane = r->planes + (size_t)b * padded(g);

		for (size_t t = from; t < to; t++) {
			size_t tile = t % tiles_of(g);

			if (tile == 0)
				memset(plane, 0, padded(g) * sizeof(float));
			input_back_tile(g, r->v + (t - from) * (size_t)g->c + (size_t)(b * LANES),
				(int)tile, plane);
			if (tile == tiles_of(g) - 1)
				store_plane(g, plane, a->to,
					plane_at((int)(t / tiles_of(g)), g->c, b, g->h, g->w));
		}
	}
}

/* dU += V' dM of so many tiles, then dV = dM U' in V's place: at one point, in single precision and
 * in bfloat16. */
INLINE void backward_point(
	const struct call *a, int p, int tiles, int rows, float *v, const float *m, float *du)
{
	const struct winograd *g = a->g;
	struct product vm = { v, m, du, 1, (size_t)g->c, g->c, g->k, tiles };
	struct product mu = { m, a->u + (size_t)p * matrix(g), v, (size_t)g->k, 1, rows, g->c,
		g->k };

	product(&vm, 1);
	if (a->to)
		product(&mu, 0);
}

static void backward_pairs(const struct call *a, int p, int tiles, int rows, float *v,
	const float *m, float *du, uint32_t *rounded)
{
	const struct winograd *g = a->g;
	uint32_t *by_tile = rounded, *by_row = by_tile + (size_t)(g->chunk / 2 * g->c);
	uint32_t *by_column = by_row + (size_t)(g->chunk / 2 * g->k);
	struct pairs_product vm = { by_tile, by_row, du, 1, (size_t)g->c, g->c, g->k,
		(tiles + 1) / 2 };
	struct pairs_product mu = { by_column, a->pairs + (size_t)p * matrix(g) / 2, v,
		(size_t)(g->k / 2), 1, rows, g->c, g->k / 2 };

	pairs_of_rows(v, tiles, g->c, by_tile);
	pairs_of_rows(m, tiles, g->k, by_row);
	pairs_product(&vm, 1);
	if (a->to) {
		pairs_of_columns(m, (size_t)rows * (size_t)g->k, by_column);
		pairs_product(&mu, 0);
	}
}

/* dM, then dU and dV, then dx. */
INLINE void backward_chunk(
	const struct call *a, size_t from, size_t to, const struct room *r, const struct room *kept)
{
	const struct winograd *g = a->g;
	int rows = (int)((to - from + PRODUCT_ROWS - 1) / PRODUCT_ROWS * PRODUCT_ROWS);

	input_chunk(a, from, to, kept);
	for (size_t t = from; t < to; t++)
		for (int b = 0; b < g->k / LANES; b++)
			output_back_tile(a, t, b,
				r->m + (t - from) * (size_t)g->k + (size_t)(b * LANES), r->db);
	for (int p = 0; p < POINTS; p++) {
		float *m = r->m + (size_t)p * point_stride(g, g->k);
		float *v = r->v + (size_t)p * point_stride(g, g->c);
		float *du = r->du + (size_t)p * matrix(g);

		if (a->pairs)
			backward_pairs(a, p, (int)(to - from), rows, v, m, du, r->rounded);
		else
			backward_point(a, p, (int)(to - from), rows, v, m, du);
	}
	if (a->to)
		input_back_chunk(a, from, to, r);
}

WIDE_FIXED static void backward_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct winograd *g = a->g;
	struct room r = room_of(g, a->work, me), kept = r;
	size_t t = parallel_from((size_t)g->n, 1, me, of) * tiles_of(g);
	size_t end = parallel_from((size_t)g->n, 1, me + 1, of) * tiles_of(g);

	kept.planes = r.planes + (size_t)(g->c / LANES) * padded(g);
	memset(r.du, 0, winograd_u(g) * sizeof(float));
	memset(r.db, 0, (size_t)g->k * sizeof(float));
	for (; t < end; t += (size_t)g->chunk) {
		size_t to = t + (size_t)g->chunk < end ? t + (size_t)g->chunk : end;

		backward_chunk(a, t, to, &r, &kept);
	}
}

static void winograd_backward(const struct winograd *g, const void *x, const void *y,
	const void *dy, const uint8_t *winner, const float *ut, const uint32_t *pairs, float *dw,
	float *db, void *dx, float *work)
{
	struct call a = { .g = g,
		.rows = g->n,
		.x = x,
		.y = y,
		.dy = dy,
		.u = ut,
		.pairs = pairs,
		.winner = (uint8_t *)winner,
		.to = dx,
		.work = work };

	parallel_run(backward_in_thread, &a);
	winograd_weights_back(g, sums_of(g, work), dw, db);
}

const struct winograd_code WINOGRAD_NAME(winograd) = {
	.work = winograd_work,
	.weights = winograd_weights,
	.pairs = winograd_pairs,
	.forward = winograd_forward,
	.backward = winograd_backward,
};
