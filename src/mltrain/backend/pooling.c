/*
 * Pooling for the backend `onednn`, with the layouts of kernels.h. ops.h defines it in plain loops.
 *
 * Windows usually do not overlap. Then the gradient can replace the activation, which needs no
 * winners and no second array.
 */
#include "backend/kernels.h"

#include "backend/parallel.h"
#include "tensor/wide.h"

/* At -O2 gcc 12 leaves most of these loops scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

struct call {
	const struct pooling *l;
	const void *x, *dy;
	void *to;
	int relu;
};

/* Blocks of channels, each a plane of pixels. */
INLINE size_t planes(const struct kernel_image *m)
{
	return (size_t)m->n * (size_t)((m->c + m->block - 1) / m->block);
}

/* The element of a plane's pixel. */
INLINE size_t pixel(const struct kernel_image *m, size_t plane, int y, int x)
{
	return ((plane * (size_t)m->h + (size_t)y) * (size_t)m->w + (size_t)x) * (size_t)m->block;
}

/* --- windows of 2 x 2 or the like, 16 channels at a time ------------------------------------- */

INLINE void greatest(
	const struct pooling *l, const void *x, size_t corner, int size, int bf16, vecf *best)
{
	size_t row = (size_t)(l->x.w * WIDE_LANES);

	wide_load(best, x, corner, bf16);
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++) {
			vecf v;
			veci more;

			wide_load(&v, x, corner + (size_t)r * row + (size_t)(s * WIDE_LANES), bf16);
			more = v > *best;
			*best = (vecf)(((veci)v & more) | ((veci)*best & ~more));
		}
}

INLINE void lanes_forward(const struct call *c, size_t from, size_t to, int size, int bf16)
{
	const struct pooling *l = c->l;

	for (size_t m = from; m < to; m++)
		for (int i = 0; i < l->p; i++)
			for (int j = 0; j < l->q; j++) {
				size_t at = ((m * (size_t)l->p + (size_t)i) * (size_t)l->q +
						    (size_t)j) *
					WIDE_LANES;
				vecf best;

				greatest(l, c->x, pixel(&l->x, m, i * l->stride, j * l->stride),
					size, bf16, &best);
				wide_store(c->to, at, &best, bf16);
			}
}

/* The first of equals takes all that there is. */
INLINE void window_back(const struct call *c, size_t corner, size_t at, int size, int bf16)
{
	size_t row = (size_t)(c->l->x.w * WIDE_LANES);
	vecf best, left;

	greatest(c->l, c->to, corner, size, bf16, &best);
	wide_load(&left, c->dy, at, bf16);
	if (c->relu)
		left = (vecf)((veci)left & (veci)(best > 0));
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++) {
			size_t here = corner + (size_t)r * row + (size_t)(s * WIDE_LANES);
			vecf v;
			veci won;

			wide_load(&v, c->to, here, bf16);
			won = v == best;
			v = (vecf)((veci)left & won);
			left = (vecf)((veci)left & ~won);
			wide_store(c->to, here, &v, bf16);
		}
}

/* Elements that no window covers get no gradient. */
INLINE void clear_rest(const struct pooling *l, void *x, size_t m)
{
	int h = l->p * l->stride, w = l->q * l->stride;
	size_t element = wide_size(l->x.bf16), b = (size_t)l->x.block;

	for (int i = 0; w < l->x.w && i < h; i++)
		memset((char *)x + pixel(&l->x, m, i, w) * element, 0,
			(size_t)(l->x.w - w) * b * element);
	if (h < l->x.h)
		memset((char *)x + pixel(&l->x, m, h, 0) * element, 0,
			(size_t)((l->x.h - h) * l->x.w) * b * element);
}

INLINE void lanes_backward(const struct call *c, size_t from, size_t to, int size, int bf16)
{
	const struct pooling *l = c->l;

	for (size_t m = from; m < to; m++) {
		for (int i = 0; i < l->p; i++)
			for (int j = 0; j < l->q; j++)
				window_back(c, pixel(&l->x, m, i * size, j * size),
					((m * (size_t)l->p + (size_t)i) * (size_t)l->q +
						(size_t)j) *
						WIDE_LANES,
					size, bf16);
		clear_rest(l, c->to, m);
	}
}

/* --- any window, any block ------------------------------------------------------------------- */

/* The place of a window's greatest value, the first of equals. */
INLINE size_t winner(const struct pooling *l, const void *x, size_t m, int i, int j, size_t lane)
{
	size_t at = pixel(&l->x, m, i * l->stride, j * l->stride) + lane;
	float best = wide_get(x, at, l->x.bf16);

	for (int r = 0; r < l->size; r++)
		for (int s = 0; s < l->size; s++) {
			size_t here = pixel(&l->x, m, i * l->stride + r, j * l->stride + s) + lane;
			float v = wide_get(x, here, l->x.bf16);

			if (v > best) {
				best = v;
				at = here;
			}
		}
	return at;
}

INLINE float mean_of(const struct pooling *l, const void *x, size_t m, int i, int j, size_t lane)
{
	float sum = 0;

	for (int r = 0; r < l->size; r++)
		for (int s = 0; s < l->size; s++)
			sum += wide_get(x,
				pixel(&l->x, m, i * l->stride + r, j * l->stride + s) + lane,
				l->x.bf16);
	return sum / (float)(l->size * l->size);
}

INLINE size_t output_at(const struct pooling *l, size_t m, int i, int j)
{
	return ((m * (size_t)l->p + (size_t)i) * (size_t)l->q + (size_t)j) * (size_t)l->x.block;
}

INLINE void any_forward(const struct call *c, size_t from, size_t to)
{
	const struct pooling *l = c->l;

	for (size_t m = from; m < to; m++)
		for (int i = 0; i < l->p; i++)
			for (int j = 0; j < l->q; j++)
				for (size_t k = 0; k < (size_t)l->x.block; k++) {
					float v = l->mean
						? mean_of(l, c->x, m, i, j, k)
						: wide_get(c->x, winner(l, c->x, m, i, j, k),
							  l->x.bf16);

					wide_put(c->to, output_at(l, m, i, j) + k, v, l->x.bf16);
				}
}

INLINE void gain(const struct pooling *l, void *dx, size_t at, float v)
{
	wide_put(dx, at, wide_get(dx, at, l->x.bf16) + v, l->x.bf16);
}

INLINE void any_window_back(const struct call *c, size_t m, int i, int j, size_t lane)
{
	const struct pooling *l = c->l;
	float dy = wide_get(c->dy, output_at(l, m, i, j) + lane, l->x.bf16);

	if (!l->mean) {
		gain(l, c->to, winner(l, c->x, m, i, j, lane), dy);
		return;
	}
	dy /= (float)(l->size * l->size);
	for (int r = 0; r < l->size; r++)
		for (int s = 0; s < l->size; s++)
			gain(l, c->to, pixel(&l->x, m, i * l->stride + r, j * l->stride + s) + lane,
				dy);
}

INLINE void any_backward(const struct call *c, size_t from, size_t to)
{
	const struct pooling *l = c->l;
	size_t element = wide_size(l->x.bf16), plane = pixel(&l->x, 1, 0, 0);

	if (from < to)
		memset((char *)c->to + from * plane * element, 0, (to - from) * plane * element);
	for (size_t m = from; m < to; m++)
		for (int i = 0; i < l->p; i++)
			for (int j = 0; j < l->q; j++)
				for (size_t k = 0; k < (size_t)l->x.block; k++)
					any_window_back(c, m, i, j, k);
}

/* --- which of them --------------------------------------------------------------------------- */

int pooling_is_plain(const struct pooling *l)
{
	return !l->mean && l->size == l->stride && l->x.block == WIDE_LANES;
}

WIDE static void forward_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t n = planes(&c->l->x), from = parallel_from(n, 1, me, of);
	size_t to = parallel_from(n, 1, me + 1, of);

	if (c->l->mean || c->l->x.block != WIDE_LANES)
		any_forward(c, from, to);
	else if (c->l->x.bf16 && c->l->size == 2)
		lanes_forward(c, from, to, 2, 1);
	else if (c->l->x.bf16)
		lanes_forward(c, from, to, c->l->size, 1);
	else if (c->l->size == 2)
		lanes_forward(c, from, to, 2, 0);
	else
		lanes_forward(c, from, to, c->l->size, 0);
}

WIDE static void in_place_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t n = planes(&c->l->x), from = parallel_from(n, 1, me, of);
	size_t to = parallel_from(n, 1, me + 1, of);

	if (c->l->x.bf16 && c->l->size == 2)
		lanes_backward(c, from, to, 2, 1);
	else if (c->l->x.bf16)
		lanes_backward(c, from, to, c->l->size, 1);
	else if (c->l->size == 2)
		lanes_backward(c, from, to, 2, 0);
	else
		lanes_backward(c, from, to, c->l->size, 0);
}

WIDE static void backward_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t n = planes(&c->l->x);

	any_backward(c, parallel_from(n, 1, me, of), parallel_from(n, 1, me + 1, of));
}

void pooling_forward(const struct pooling *l, const void *x, void *y)
{
	struct call c = { .l = l, .x = x, .to = y };

	parallel_run(forward_in_thread, &c);
}

void pooling_backward(const struct pooling *l, const void *x, const void *dy, void *dx)
{
	struct call c = { .l = l, .x = x, .dy = dy, .to = dx };

	parallel_run(backward_in_thread, &c);
}

void pooling_backward_in_place(const struct pooling *l, int relu, const void *dy, void *x)
{
	struct call c = { .l = l, .dy = dy, .to = x, .relu = relu };

	parallel_run(in_place_in_thread, &c);
}

/* --- whole channels -------------------------------------------------------------------------- */

struct global_call {
	const struct kernel_image *x;
	const void *from;
	void *to;
};

/* Where image n's channel k begins in x; its pixels are a block apart. */
INLINE size_t channel_at(const struct kernel_image *x, size_t n, size_t k)
{
	size_t b = (size_t)x->block, blocks = ((size_t)x->c + b - 1) / b;

	return (n * blocks + k / b) * (size_t)(x->h * x->w) * b + k % b;
}

WIDE static void global_in_thread(void *ctx, int me, int of)
{
	const struct global_call *c = ctx;
	const struct kernel_image *x = c->x;
	size_t channels = (size_t)x->c, n = (size_t)x->n * channels;
	size_t to = parallel_from(n, 1, me + 1, of), pixels = (size_t)(x->h * x->w);

	for (size_t i = parallel_from(n, 1, me, of); i < to; i++) {
		size_t at = channel_at(x, i / channels, i % channels);
		float sum = 0;

		for (size_t p = 0; p < pixels; p++)
			sum += wide_get(c->from, at + p * (size_t)x->block, x->bf16);
		wide_put(c->to, i, sum / (float)pixels, x->bf16);
	}
}

WIDE static void global_back_in_thread(void *ctx, int me, int of)
{
	const struct global_call *c = ctx;
	const struct kernel_image *x = c->x;
	size_t pixels = (size_t)(x->h * x->w), channels = (size_t)x->c;
	size_t padded = (channels + (size_t)x->block - 1) / (size_t)x->block * (size_t)x->block;
	size_t n = (size_t)x->n * padded, to = parallel_from(n, 1, me + 1, of);

	for (size_t i = parallel_from(n, 1, me, of); i < to; i++) {
		size_t image = i / padded, k = i % padded, at = channel_at(x, image, k);
		float dy = k < channels ? wide_get(c->from, image * channels + k, x->bf16) : 0;

		for (size_t p = 0; p < pixels; p++)
			wide_put(c->to, at + p * (size_t)x->block, dy / (float)pixels, x->bf16);
	}
}

void pooling_global_forward(const struct kernel_image *x, const void *from, void *y)
{
	struct global_call c = { x, from, y };

	parallel_run(global_in_thread, &c);
}

void pooling_global_backward(const struct kernel_image *x, const void *dy, void *dx)
{
	struct global_call c = { x, dy, dx };

	parallel_run(global_back_in_thread, &c);
}
