#include "trainer/backend/kernels.h"

#include "trainer/backend/parallel.h"
#include "trainer/backend/wide.h"

#include <string.h>

/* At -O2 gcc 12 leaves most of these loops scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

struct pool_call {
	const struct kernel_pool *p;
	const float *from;
	float *to;
	int relu;
};

/* One window of a whole block of channels. With block and size constant the loops unroll. */
INLINE void window_forward(
	const float *restrict x, float *restrict y, size_t row, int block, int size)
{
	for (int l = 0; l < block; l++) {
		float best = x[l];

		for (int r = 0; r < size; r++)
			for (int s = 0; s < size; s++) {
				float v = x[(size_t)r * row + (size_t)(s * block + l)];

				best = v > best ? v : best;
			}
		y[l] = best;
	}
}

INLINE void window_backward(
	float *restrict x, const float *restrict dy, size_t row, int block, int size, int relu)
{
	for (int l = 0; l < block; l++) {
		float best = x[l], left;

		for (int r = 0; r < size; r++)
			for (int s = 0; s < size; s++) {
				float v = x[(size_t)r * row + (size_t)(s * block + l)];

				best = v > best ? v : best;
			}
		left = relu && !(best > 0) ? 0 : dy[l];
		for (int r = 0; r < size; r++)
			for (int s = 0; s < size; s++) {
				float *v = &x[(size_t)r * row + (size_t)(s * block + l)];
				float mine = *v == best ? left : 0;

				left = *v == best ? 0 : left; /* the first of equals takes all */
				*v = mine;
			}
	}
}

INLINE void rows_forward(const struct kernel_pool *p, const float *x, float *y, size_t from,
	size_t to, int block, int size)
{
	int ph = p->h / size, pw = p->w / size;
	size_t row = (size_t)(p->w * block), step = (size_t)(size * block);

	y += from * (size_t)(ph * pw * block);
	for (size_t m = from; m < to; m++)
		for (int i = 0; i < ph; i++) {
			const float *window = x + (m * (size_t)p->h + (size_t)(i * size)) * row;

			for (int j = 0; j < pw; j++, window += step, y += block)
				window_forward(window, y, row, block, size);
		}
}

/* What no window covers gets no gradient. */
INLINE void clear_rest(const struct kernel_pool *p, float *x, size_t m, int block, int size)
{
	int h = p->h / size * size, w = p->w / size * size;
	size_t row = (size_t)(p->w * block);
	float *image = x + m * (size_t)p->h * row;

	if (w < p->w)
		for (int i = 0; i < h; i++)
			memset(image + (size_t)i * row + (size_t)(w * block), 0,
				(size_t)((p->w - w) * block) * sizeof(float));
	if (h < p->h)
		memset(image + (size_t)h * row, 0, (size_t)(p->h - h) * row * sizeof(float));
}

INLINE void rows_backward(const struct kernel_pool *p, const float *dy, float *x, size_t from,
	size_t to, int block, int size, int relu)
{
	int ph = p->h / size, pw = p->w / size;
	size_t row = (size_t)(p->w * block), step = (size_t)(size * block);

	dy += from * (size_t)(ph * pw * block);
	for (size_t m = from; m < to; m++) {
		for (int i = 0; i < ph; i++) {
			float *window = x + (m * (size_t)p->h + (size_t)(i * size)) * row;

			for (int j = 0; j < pw; j++, window += step, dy += block)
				window_backward(window, dy, row, block, size, relu);
		}
		clear_rest(p, x, m, block, size);
	}
}

WIDE static void forward_in_thread(void *ctx, int me, int of)
{
	const struct pool_call *c = ctx;
	const struct kernel_pool *p = c->p;
	size_t from = parallel_from(p->rows, 1, me, of), to = parallel_from(p->rows, 1, me + 1, of);

	if (p->block == 16 && p->size == 2)
		rows_forward(p, c->from, c->to, from, to, 16, 2);
	else if (p->block == 8 && p->size == 2)
		rows_forward(p, c->from, c->to, from, to, 8, 2);
	else
		rows_forward(p, c->from, c->to, from, to, p->block, p->size);
}

WIDE static void backward_in_thread(void *ctx, int me, int of)
{
	const struct pool_call *c = ctx;
	const struct kernel_pool *p = c->p;
	size_t from = parallel_from(p->rows, 1, me, of), to = parallel_from(p->rows, 1, me + 1, of);

	if (p->block == 16 && p->size == 2 && c->relu)
		rows_backward(p, c->from, c->to, from, to, 16, 2, 1);
	else if (p->block == 8 && p->size == 2 && c->relu)
		rows_backward(p, c->from, c->to, from, to, 8, 2, 1);
	else
		rows_backward(p, c->from, c->to, from, to, p->block, p->size, c->relu);
}

void kernel_pool_forward(const struct kernel_pool *p, const float *x, float *y)
{
	struct pool_call c = { p, x, y, 0 };

	parallel_run(forward_in_thread, &c);
}

void kernel_pool_backward(const struct kernel_pool *p, int relu, const float *dy, float *x)
{
	struct pool_call c = { p, dy, x, relu };

	parallel_run(backward_in_thread, &c);
}

struct map_call {
	size_t n;
	const float *x, *y;
	float *z;
};

WIDE static void relu_backward_in_thread(void *ctx, int me, int of)
{
	const struct map_call *c = ctx;
	size_t to = parallel_from(c->n, 64, me + 1, of);

	for (size_t i = parallel_from(c->n, 64, me, of); i < to; i++)
		c->z[i] = c->y[i] > 0 ? c->z[i] : 0;
}

WIDE static void relu_forward_in_thread(void *ctx, int me, int of)
{
	const struct map_call *c = ctx;
	size_t to = parallel_from(c->n, 64, me + 1, of);

	for (size_t i = parallel_from(c->n, 64, me, of); i < to; i++)
		c->z[i] = c->x[i] < 0 ? 0 : c->x[i];
}

WIDE static void multiply_in_thread(void *ctx, int me, int of)
{
	const struct map_call *c = ctx;
	size_t to = parallel_from(c->n, 64, me + 1, of);

	for (size_t i = parallel_from(c->n, 64, me, of); i < to; i++)
		c->z[i] = c->x[i] * c->y[i];
}

void kernel_relu_backward(size_t n, const float *y, float *dy)
{
	struct map_call c = { n, NULL, y, dy };

	parallel_run(relu_backward_in_thread, &c);
}

void kernel_relu_forward(size_t n, const float *x, float *y)
{
	struct map_call c = { n, x, NULL, y };

	parallel_run(relu_forward_in_thread, &c);
}

void kernel_multiply(size_t n, const float *x, const float *y, float *z)
{
	struct map_call c = { n, x, y, z };

	parallel_run(multiply_in_thread, &c);
}

struct sgd_call {
	const struct kernel_sgd_part *parts;
	size_t n, total;
	float *p, *v;
	const float *g;
	float lr, momentum;
	double penalty[KERNELS_THREADS_MAX], norm2[KERNELS_THREADS_MAX];
};

#define LANES 16
#define CHUNK 1024 /* floats summed in single precision before their sum joins the double */

/* Returns the sum of squares before. */
INLINE double sgd_chunk(size_t n, float *restrict p, float *restrict v, const float *restrict g,
	float lr, float momentum, float l2)
{
	float lane[LANES] = { 0 };
	double sum = 0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++) {
			float w = p[i + k], u = momentum * v[i + k] + (g[i + k] + l2 * w);

			lane[k] += w * w;
			v[i + k] = u;
			p[i + k] = w - lr * u;
		}
	for (; i < n; i++) {
		float w = p[i], u = momentum * v[i] + (g[i] + l2 * w);

		lane[0] += w * w;
		v[i] = u;
		p[i] = w - lr * u;
	}
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

/* The shares are cut through the whole block, whatever parts they fall into. */
WIDE static void sgd_in_thread(void *ctx, int me, int of)
{
	struct sgd_call *c = ctx;
	size_t from = parallel_from(c->total, LANES, me, of);
	size_t to = parallel_from(c->total, LANES, me + 1, of);
	double penalty = 0, norm2 = 0;

	for (size_t k = 0; k < c->n; k++) {
		const struct kernel_sgd_part *part = &c->parts[k];
		size_t end = part->at + part->count, at = part->at > from ? part->at : from;
		double sum = 0;

		end = end < to ? end : to;
		for (; at < end; at += CHUNK)
			sum += sgd_chunk(end - at < CHUNK ? end - at : CHUNK, c->p + at, c->v + at,
				c->g + at, c->lr, c->momentum, part->l2);
		norm2 += sum;
		penalty += part->l2 * sum / 2;
	}
	c->penalty[me] = penalty;
	c->norm2[me] = norm2;
}

void kernel_sgd(const struct kernel_sgd_part *parts, size_t n, float *p, float *v, const float *g,
	float lr, float momentum, double *penalty, double *norm2)
{
	struct sgd_call c = {
		.parts = parts, .n = n, .p = p, .v = v, .g = g, .lr = lr, .momentum = momentum
	};

	for (size_t k = 0; k < n; k++)
		c.total = parts[k].at + parts[k].count;
	parallel_run(sgd_in_thread, &c);
	*penalty = *norm2 = 0;
	for (int i = 0; i < KERNELS_THREADS_MAX; i++) {
		*penalty += c.penalty[i];
		*norm2 += c.norm2[i];
	}
}
