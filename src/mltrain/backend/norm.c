/*
 * Batch normalisation (Ioffe and Szegedy, "Batch Normalization", 2015, algorithms 1 and 2) for the
 * backend `onednn`, on activations as kernels.h describes them.
 *
 * Training takes two passes each way: one that sums, between which the ranks add up their sums, and
 * one that computes. Sums are taken around each channel's first value, so that a mean far from zero
 * costs no digits.
 */
#include "backend/kernels.h"

#include "backend/parallel.h"
#include "tensor/wide.h"

#include <math.h>

/* At -O2 gcc 12 leaves most of these loops scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

struct call {
	const struct norm *l;
	const void *x, *y, *dy;
	void *to;
	int back;                    /* sums are those of the way back */
	const float *slope, *offset; /* dx = scale * dy + slope * (x - mean) + offset */
};

/* The planes of pixels of one block of channels each: a thread's share. */
INLINE void share(const struct norm *l, int me, int of, size_t *from, size_t *to)
{
	size_t n = (size_t)l->x.n * (norm_channels(l) / (size_t)l->x.block);

	*from = parallel_from(n, 1, me, of);
	*to = parallel_from(n, 1, me + 1, of);
}

INLINE size_t channel_of(const struct norm *l, size_t plane)
{
	size_t b = (size_t)l->x.block;

	return plane % (norm_channels(l) / b) * b;
}

/* --- sums ------------------------------------------------------------------------------------ */

/* Add a plane of 16 channels to two sums of each channel. */
INLINE void sum_lanes(const struct call *c, size_t plane, double *s, double *t, int bf16)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), k = channel_of(l, plane);
	vecf mean = *(const vecf *)(l->mean + k), inverse = *(const vecf *)(l->inverse + k);
	vecf a = { 0 }, b = { 0 };

	for (size_t p = 0; p < pixels; p++) {
		size_t at = (plane * pixels + p) * WIDE_LANES;
		vecf x, dy, y;

		wide_load(&x, c->x, at, bf16);
		x -= mean;
		if (c->back) {
			wide_load(&dy, c->dy, at, bf16);
			if (l->relu) {
				wide_load(&y, c->y, at, bf16);
				dy = (vecf)((veci)dy & (veci)(y > 0));
			}
			a += dy;
			b += dy * x * inverse;
		} else {
			a += x;
			b += x * x;
		}
	}
	for (size_t i = 0; i < WIDE_LANES; i++) {
		s[k + i] += a[i];
		t[k + i] += b[i];
	}
}

INLINE void sum_any(const struct call *c, size_t plane, double *s, double *t)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), k = channel_of(l, plane);
	size_t block = (size_t)l->x.block;
	int bf16 = l->x.bf16;

	for (size_t p = 0; p < pixels; p++)
		for (size_t i = 0; i < block; i++) {
			size_t at = (plane * pixels + p) * block + i;
			float x = wide_get(c->x, at, bf16) - l->mean[k + i], dy;

			if (c->back) {
				dy = wide_get(c->dy, at, bf16);
				if (l->relu && !(wide_get(c->y, at, bf16) > 0))
					dy = 0;
				s[k + i] += dy;
				t[k + i] += dy * x * l->inverse[k + i];
			} else {
				s[k + i] += x;
				t[k + i] += x * x;
			}
		}
}

WIDE static void sum_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t channels = norm_channels(c->l), from, to;
	double *s = c->l->partial + (size_t)me * 2 * channels, *t = s + channels;

	memset(s, 0, 2 * channels * sizeof(*s));
	share(c->l, me, of, &from, &to);
	for (size_t m = from; m < to; m++)
		if (c->l->x.block != WIDE_LANES)
			sum_any(c, m, s, t);
		else if (c->l->x.bf16)
			sum_lanes(c, m, s, t, 1);
		else
			sum_lanes(c, m, s, t, 0);
}

/* Add up what threads have summed. */
static void sum(struct call *c, int threads)
{
	const struct norm *l = c->l;
	size_t n = 2 * norm_channels(l);

	memset(l->partial, 0, (size_t)threads * n * sizeof(*l->partial));
	parallel_run(sum_in_thread, c);
	memset(l->sums, 0, n * sizeof(*l->sums));
	for (size_t i = 0; i < (size_t)threads * n; i++)
		l->sums[i % n] += l->partial[i];
}

/* How many values a channel has in this rank's batch. */
static double values(const struct norm *l)
{
	return (double)l->x.n * l->x.h * l->x.w;
}

void norm_sum(const struct norm *l, const void *x, int threads)
{
	struct call c = { .l = l, .x = x };
	size_t n = norm_channels(l), block = (size_t)l->x.block;
	size_t pixels = (size_t)(l->x.h * l->x.w);

	for (size_t k = 0; k < n; k++)
		l->mean[k] = wide_get(x, k / block * pixels * block + k % block, l->x.bf16);
	sum(&c, threads);
	for (size_t k = 0; k < n; k++) {
		double d = l->sums[k] / values(l), mean = l->mean[k] + d;

		l->sums[n + k] = l->sums[n + k] / values(l) - d * d + mean * mean;
		l->sums[k] = mean;
	}
}

void norm_back_sum(const struct norm *l, const void *x, const void *y, const void *dy, int threads)
{
	struct call c = { .l = l, .x = x, .y = y, .dy = dy, .back = 1 };

	sum(&c, threads);
}

/* --- settling -------------------------------------------------------------------------------- */

static void settle(const struct norm *l, int k, double mean, double variance, const float *gamma,
	const float *beta)
{
	double inverse = 1 / sqrt(variance + l->epsilon);

	l->mean[k] = (float)mean;
	l->inverse[k] = (float)inverse;
	l->scale[k] = (float)(gamma[k] * inverse);
	l->shift[k] = (float)(beta[k] - mean * gamma[k] * inverse);
}

/* Padding stays zero. */
static void clear_padding(const struct norm *l)
{
	for (size_t k = (size_t)l->x.c; k < norm_channels(l); k++)
		l->mean[k] = l->inverse[k] = l->scale[k] = l->shift[k] = 0;
}

void norm_settle(const struct norm *l, double shares, const float *gamma, const float *beta,
	float momentum, float *running)
{
	size_t n = norm_channels(l);
	double count = values(l) * shares;

	for (int k = 0; k < l->x.c; k++) {
		double mean = l->sums[k];
		double variance = l->sums[n + (size_t)k] - mean * mean;
		float *m = &running[k], *v = &running[l->x.c + k];

		variance = variance < 0 ? 0 : variance; /* rounding of a constant channel */
		settle(l, k, mean, variance, gamma, beta);
		*m = (float)((1 - momentum) * *m + momentum * mean);
		if (count > 1)
			variance *= count / (count - 1);
		*v = (float)((1 - momentum) * *v + momentum * variance);
	}
	clear_padding(l);
}

void norm_settle_running(
	const struct norm *l, const float *gamma, const float *beta, const float *running)
{
	for (int k = 0; k < l->x.c; k++)
		settle(l, k, running[k], running[l->x.c + k], gamma, beta);
	clear_padding(l);
}

/* --- passes ---------------------------------------------------------------------------------- */

INLINE void apply_lanes(const struct call *c, size_t plane, int bf16)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), k = channel_of(l, plane);
	vecf scale = *(const vecf *)(l->scale + k), shift = *(const vecf *)(l->shift + k);

	for (size_t p = 0; p < pixels; p++) {
		size_t at = (plane * pixels + p) * WIDE_LANES;
		vecf x;

		wide_load(&x, c->x, at, bf16);
		x = scale * x + shift;
		if (l->relu)
			x = (vecf)((veci)x & ~(veci)(x < 0));
		wide_store(c->to, at, &x, bf16);
	}
}

INLINE void apply_any(const struct call *c, size_t plane)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), k = channel_of(l, plane);
	size_t block = (size_t)l->x.block;

	for (size_t p = 0; p < pixels; p++)
		for (size_t i = 0; i < block; i++) {
			size_t at = (plane * pixels + p) * block + i;
			float x = wide_get(c->x, at, l->x.bf16);

			x = l->scale[k + i] * x + l->shift[k + i];
			wide_put(c->to, at, l->relu && x < 0 ? 0 : x, l->x.bf16);
		}
}

WIDE static void normalise_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t from, to;

	share(c->l, me, of, &from, &to);
	for (size_t m = from; m < to; m++)
		if (c->l->x.block != WIDE_LANES)
			apply_any(c, m);
		else if (c->l->x.bf16)
			apply_lanes(c, m, 1);
		else
			apply_lanes(c, m, 0);
}

void norm_apply(const struct norm *l, const void *x, void *y)
{
	struct call c = { .l = l, .x = x, .to = y };

	parallel_run(normalise_in_thread, &c);
}

INLINE void back_lanes(const struct call *c, size_t plane, int bf16)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), k = channel_of(l, plane);
	vecf scale = *(const vecf *)(l->scale + k), mean = *(const vecf *)(l->mean + k);
	vecf slope = *(const vecf *)(c->slope + k), offset = *(const vecf *)(c->offset + k);

	for (size_t p = 0; p < pixels; p++) {
		size_t at = (plane * pixels + p) * WIDE_LANES;
		vecf x, y, dy;

		wide_load(&x, c->x, at, bf16);
		wide_load(&dy, c->dy, at, bf16);
		if (l->relu) {
			wide_load(&y, c->y, at, bf16);
			dy = (vecf)((veci)dy & (veci)(y > 0));
		}
		dy = scale * dy + slope * (x - mean) + offset;
		wide_store(c->to, at, &dy, bf16);
	}
}

INLINE void back_any(const struct call *c, size_t plane)
{
	const struct norm *l = c->l;
	size_t pixels = (size_t)(l->x.h * l->x.w), first = channel_of(l, plane);
	size_t block = (size_t)l->x.block;
	int bf16 = l->x.bf16;

	for (size_t p = 0; p < pixels; p++)
		for (size_t i = 0; i < block; i++) {
			size_t at = (plane * pixels + p) * block + i, k = first + i;
			float x = wide_get(c->x, at, bf16) - l->mean[k];
			float dy = wide_get(c->dy, at, bf16);

			if (l->relu && !(wide_get(c->y, at, bf16) > 0))
				dy = 0;
			wide_put(
				c->to, at, l->scale[k] * dy + c->slope[k] * x + c->offset[k], bf16);
		}
}

WIDE static void back_in_thread(void *ctx, int me, int of)
{
	const struct call *c = ctx;
	size_t from, to;

	share(c->l, me, of, &from, &to);
	for (size_t m = from; m < to; m++)
		if (c->l->x.block != WIDE_LANES)
			back_any(c, m);
		else if (c->l->x.bf16)
			back_lanes(c, m, 1);
		else
			back_lanes(c, m, 0);
}

/* dx = scale * (dy - mean(dy) - xn * mean(dy * xn)), xn = (x - mean) * inverse. The two factors
 * take the place of what threads have summed. */
void norm_back_apply(
	const struct norm *l, double shares, const void *x, const void *y, const void *dy, void *dx)
{
	size_t n = norm_channels(l);
	float *slope = (float *)l->partial, *offset = slope + n;
	struct call c = {
		.l = l, .x = x, .y = y, .dy = dy, .to = dx, .slope = slope, .offset = offset
	};

	for (size_t k = 0; k < n; k++) {
		double count = values(l) * shares;

		slope[k] = (float)(-l->scale[k] * l->sums[n + k] / count * l->inverse[k]);
		offset[k] = (float)(-l->scale[k] * l->sums[k] / count);
	}
	parallel_run(back_in_thread, &c);
}
