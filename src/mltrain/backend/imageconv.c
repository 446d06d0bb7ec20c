#include "backend/lanes.h"

#include "backend/parallel.h"
#include "backend/window.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES        WIDE_LANES
#define BLOCK        16               /* channels that lie together in activations */
#define COLUMNS      (WIDE_LANES / 4) /* of two rows of outputs that are computed at once */
#define OUTPUTS      (2 * COLUMNS)
#define CHANNELS_MAX 4
#define KERNEL_MAX   8
#define ROW_LANES    8  /* a row of a kernel's gradient, the end of it unused */
#define SLACK        16 /* floats beyond an image that vectors may read */

/* A row of a kernel's gradient. */
typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));

int imageconv_fits(struct imageconv *g, int n, int c, int k, int h, int w, int size, int stride,
	int pad, int threads)
{
	if (c > CHANNELS_MAX || k % BLOCK || size > KERNEL_MAX || stride != 1)
		return 0;
	*g = (struct imageconv){ .n = n,
		.c = c,
		.k = k,
		.h = h,
		.w = w,
		.size = size,
		.pad = pad,
		.p = (h + 2 * pad - size + 1) / 2,
		.q = (w + 2 * pad - size + 1) / 2,
		.threads = threads };
	return g->p > 0 && g->q > 0;
}

/* An image with its border, wide enough for four columns more than there are. */
INLINE int across(const struct imageconv *g)
{
	return g->w + 2 * g->pad + 4;
}

INLINE size_t image_size(const struct imageconv *g)
{
	return (size_t)(g->c * (g->h + 2 * g->pad) * across(g)) + SLACK;
}

INLINE size_t gradient_size(const struct imageconv *g)
{
	return (size_t)(g->k * g->c * g->size * ROW_LANES);
}

/* A thread's own memory: an image, the gradients that it gathers, and of a vector of
 * channels of an image each pooled gradient and where its window's winner begins. */
struct room {
	float *image, *dw, *db, *dy;
	int *at;
};

INLINE size_t room_size(const struct imageconv *g)
{
	return image_size(g) + gradient_size(g) + (size_t)g->k + (size_t)(2 * g->p * g->q * LANES);
}

INLINE struct room room_of(const struct imageconv *g, float *work, int me)
{
	struct room r = { .image = work + room_size(g) * (size_t)me };

	r.dw = r.image + image_size(g);
	r.db = r.dw + gradient_size(g);
	r.dy = r.db + g->k;
	r.at = (int *)(r.dy + g->p * g->q * LANES);
	return r;
}

size_t imageconv_work(const struct imageconv *g)
{
	return room_size(g) * (size_t)g->threads;
}

struct call {
	const struct imageconv *g;
	const float *x, *weights, *bias;
	const void *dy;
	uint8_t *winner;
	void *y;
	float *work;
	int relu, rows;
};

INLINE void pad_image(const struct imageconv *g, const float *x, int image, float *to)
{
	int rows = g->h + 2 * g->pad;

	memset(to, 0, image_size(g) * sizeof(float));
	for (int c = 0; c < g->c; c++)
		for (int i = 0; i < g->h; i++)
			memcpy(to + (c * rows + i + g->pad) * across(g) + g->pad,
				x +
					((size_t)(image * g->c + c) * (size_t)g->h + (size_t)i) *
						(size_t)g->w,
				(size_t)g->w * sizeof(float));
}

/* --- forward ------------------------------------------------------------------------------- */

/* The element of a vector of channels from k on, at the first pooled pixel. */
INLINE size_t plane_at(const struct imageconv *g, int image, int k)
{
	return ((size_t)image * (size_t)(g->k / BLOCK) + (size_t)(k / BLOCK)) *
		(size_t)(g->p * g->q) * BLOCK +
		(size_t)(k % BLOCK);
}

/* Two rows of outputs, for one or two vectors of channels from k on. */
INLINE void some_outputs(const struct imageconv *g, const float *image, const float *weights,
	int row, int column, int vectors, vecf sum[2][OUTPUTS])
{
	int rows = g->h + 2 * g->pad, w = across(g);

	for (int b = 0; b < vectors; b++)
		for (int i = 0; i < OUTPUTS; i++)
			sum[b][i] = (vecf){ 0 };
	for (int r = 0; r < g->size; r++)
		for (int s = 0; s < g->size; s++)
			for (int c = 0; c < g->c; c++) {
				const float *x = image + (c * rows + row + r) * w + column + s;
				vecf w0 = *(const vecf *)weights, w1 = { 0 };

				if (vectors == 2)
					w1 = *(const vecf *)(weights + LANES);
				for (int i = 0; i < OUTPUTS; i++) {
					float v = x[i / COLUMNS * w + i % COLUMNS];

					sum[0][i] += w0 * v;
					if (vectors == 2)
						sum[1][i] += w1 * v;
				}
				weights += g->k;
			}
}

INLINE void pool_outputs(const struct call *a, int image, int k, int i, int j, vecf *sum)
{
	const struct imageconv *g = a->g;

	for (int n = 0; a->bias && n < OUTPUTS; n++)
		sum[n] += *(const vecf *)(a->bias + k);
	for (int n = 0; n < COLUMNS / 2 && j + n < g->q; n++) {
		size_t at = plane_at(g, image, k) + (size_t)(i * g->q + j + n) * BLOCK;
		vecf best;
		veci winner;

		window_forward(sum + 2 * n, COLUMNS, a->relu, &best, &winner);
		wide_store(a->y, at, &best, g->bf16);
		if (a->winner)
			winner_store(a->winner + at, &winner);
	}
}

INLINE void pooled_row(const struct call *a, int image, int i, const float *padded)
{
	const struct imageconv *g = a->g;
	vecf sum[2][OUTPUTS];

	for (int j = 0; j < g->q; j += COLUMNS / 2) {
		int k = 0;

		for (; k + 2 * LANES <= g->k; k += 2 * LANES) {
			some_outputs(g, padded, a->weights + k, 2 * i, 2 * j, 2, sum);
			pool_outputs(a, image, k, i, j, sum[0]);
			pool_outputs(a, image, k + LANES, i, j, sum[1]);
		}
		if (k < g->k) {
			some_outputs(g, padded, a->weights + k, 2 * i, 2 * j, 1, sum);
			pool_outputs(a, image, k, i, j, sum[0]);
		}
	}
}

/* Threads share rows of pooled outputs, so that one image too is work for all. */
WIDE_FIXED static void forward_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct imageconv *g = a->g;
	struct room r = room_of(g, a->work, me);
	size_t n = (size_t)(a->rows * g->p), to = parallel_from(n, 1, me + 1, of);
	int at = -1;

	for (size_t m = parallel_from(n, 1, me, of); m < to; m++) {
		int image = (int)m / g->p;

		if (image != at)
			pad_image(g, a->x, image, r.image);
		at = image;
		pooled_row(a, image, (int)m % g->p, r.image);
	}
}

void imageconv_forward(const struct imageconv *g, int rows, const float *x, const float *weights,
	const float *bias, int relu, void *y, uint8_t *winner, float *work)
{
	struct call a = { .g = g,
		.rows = rows,
		.x = x,
		.weights = weights,
		.bias = bias,
		.relu = relu,
		.y = y,
		.winner = winner,
		.work = work };

	parallel_run(forward_in_thread, &a);
}

/* --- backward ------------------------------------------------------------------------------ */

/* Of a vector of channels: the gradients that pass the ReLU, where their inputs begin, and the
 * bias's. */
INLINE void find_winners(const struct call *a, int image, int k, const struct room *r)
{
	const struct imageconv *g = a->g;
	vecf sum = { 0 };

	for (int m = 0; m < g->p * g->q; m++) {
		size_t at = plane_at(g, image, k) + (size_t)m * BLOCK;
		int corner = 2 * (m / g->q) * across(g) + 2 * (m % g->q);
		vecf dy;
		veci winner;

		wide_load(&dy, a->dy, at, g->bf16);
		winner_load(&winner, a->winner + at);
		dy = (vecf)((veci)dy & (veci)(winner != WINDOW_DEAD));
		winner &= 3;
		sum += dy;
		*(vecf *)(r->dy + m * LANES) = dy;
		*(veci *)(r->at + m * LANES) = corner + (winner & 1) + (winner >> 1) * across(g);
	}
	*(vecf *)(r->db + k) += sum;
}

/* Two channels' gradient of one channel's kernel; a row is a vector. With size constant the sums
 * stay in registers. */
INLINE void two_channels(const struct imageconv *g, const struct room *r, int k, int c, int size)
{
	const float *image = r->image + c * (g->h + 2 * g->pad) * across(g);
	const float *dy = r->dy + k % LANES;
	const int *at = r->at + k % LANES;
	vec8 a[KERNEL_MAX] = { { 0 } }, b[KERNEL_MAX] = { { 0 } };
	float *dw = r->dw + (k * g->c + c) * size * ROW_LANES;

	for (int m = 0; m < g->p * g->q; m++, dy += LANES, at += LANES)
		for (int i = 0; i < size; i++) {
			a[i] += *(const vec8 *)(image + at[0] + i * across(g)) * dy[0];
			b[i] += *(const vec8 *)(image + at[1] + i * across(g)) * dy[1];
		}
	for (int i = 0; i < size; i++) {
		*(vec8 *)(dw + i * ROW_LANES) += a[i];
		*(vec8 *)(dw + (g->c * size + i) * ROW_LANES) += b[i];
	}
}

WIDE_FIXED static void backward_in_thread(void *ctx, int me, int of)
{
	const struct call *a = ctx;
	const struct imageconv *g = a->g;
	struct room r = room_of(g, a->work, me);
	int to = (int)parallel_from((size_t)g->n, 1, me + 1, of);

	memset(r.dw, 0, (gradient_size(g) + (size_t)g->k) * sizeof(float));
	for (int image = (int)parallel_from((size_t)g->n, 1, me, of); image < to; image++) {
		pad_image(g, a->x, image, r.image);
		for (int k = 0; k < g->k; k += 2) {
			if (k % LANES == 0)
				find_winners(a, image, k, &r);
			for (int c = 0; c < g->c; c++)
				if (g->size == 5)
					two_channels(g, &r, k, c, 5);
				else if (g->size == 3)
					two_channels(g, &r, k, c, 3);
				else
					two_channels(g, &r, k, c, g->size);
		}
	}
}

/* Add up what threads have gathered, a kernel element at a time. */
static float gathered(const struct call *a, int k, int c, int r, int s)
{
	const struct imageconv *g = a->g;
	double sum = 0;

	for (int t = 0; t < g->threads; t++)
		sum += room_of(g, a->work, t).dw[((k * g->c + c) * g->size + r) * ROW_LANES + s];
	return (float)sum;
}

void imageconv_backward(const struct imageconv *g, const float *x, const void *dy,
	const uint8_t *winner, float *dw, float *db, float *work)
{
	struct call a = { .g = g, .x = x, .dy = dy, .winner = (uint8_t *)winner, .work = work };

	/* A thread that is not there has gathered nothing. */
	for (int t = 0; t < g->threads; t++)
		memset(room_of(g, work, t).dw, 0,
			(gradient_size(g) + (size_t)g->k) * sizeof(float));
	parallel_run(backward_in_thread, &a);
	for (int r = 0; r < g->size; r++)
		for (int s = 0; s < g->size; s++)
			for (int c = 0; c < g->c; c++)
				for (int k = 0; k < g->k; k++)
					*dw++ = gathered(&a, k, c, r, s);
	for (int k = 0; db && k < g->k; k++) {
		double sum = 0;

		for (int t = 0; t < g->threads; t++)
			sum += room_of(g, work, t).db[k];
		db[k] = (float)sum;
	}
}
