/*
 * Convolutions and dense layers on the GPU's kernels, run on the CPU (cuda_on_cpu/), against the
 * plain loops of ops.h: every dtype, sizes that fill tiles and sizes that don't.
 */
#include "unit.h"
#include "kernel_arrays.h"
#include "backend/ops.h"

#include <math.h>

struct conv_case {
	const char *what;
	struct kernel_conv d;
};

#define CONV(n, c, h, w, k, r, stride, pad)                                    \
	{                                                                      \
		n, c, h, w, k, r, stride, pad, (h + 2 * pad - r) / stride + 1, \
			(w + 2 * pad - r) / stride + 1                         \
	}

static const struct conv_case convs[] = {
	{ "whole tiles", CONV(2, 32, 8, 8, 64, 3, 1, 1) },
	{ "5x5 over an odd image", CONV(2, 16, 7, 9, 24, 5, 1, 2) },
	{ "channels that are no multiple of a copy", CONV(1, 5, 6, 7, 11, 3, 1, 1) },
	{ "channels in, not out", CONV(1, 8, 5, 5, 3, 3, 1, 0) },
	{ "a stride of 2", CONV(3, 8, 9, 8, 16, 3, 2, 1) },
	{ "a stride of 3 without padding", CONV(2, 8, 10, 11, 8, 2, 3, 0) },
	{ "1x1", CONV(3, 16, 4, 4, 40, 1, 1, 0) },
	{ "a dense layer", { 70, 96, 1, 1, 48, 1, 1, 0, 1, 1 } },
	{ "a dense layer of ten units", { 33, 40, 1, 1, 10, 1, 1, 0, 1, 1 } },
	{ "a dense layer split over depth", { 20, 1024, 1, 1, 40, 1, 1, 0, 1, 1 } },
	{ "a dense layer of odd sizes", { 5, 27, 1, 1, 7, 1, 1, 0, 1, 1 } },
};

#define CONVS (sizeof(convs) / sizeof(convs[0]))

/* A convolution's arrays as the kernels have them (NHWC) and as ops.h does (NCHW, _p). */
struct arrays {
	size_t xs, ws, ys, k;
	float *x, *w, *b, *dy;
	float *xp, *wp, *yp, *dyp, *dxp, *dwp, *db;
	void *xd, *wd, *dyd;
	struct kernel_scratch scratch;
};

static struct op_conv op_of(const struct kernel_conv *d)
{
	return (struct op_conv){ d->n, d->c, d->h, d->w, d->k, d->r, d->stride, d->pad, d->p,
		d->q };
}

static void make_arrays(const struct kernel_conv *d, enum dtype dtype, struct arrays *a)
{
	struct op_conv op = op_of(d);
	size_t n = (size_t)d->n, taps = (size_t)(d->r * d->r);
	struct rng r;

	rng_init(&r, 1, RNG_TEST, (uint64_t)d->c);
	memset(a, 0, sizeof(*a));
	a->k = (size_t)d->k;
	a->xs = n * (size_t)(d->h * d->w * d->c);
	a->ys = n * (size_t)(d->p * d->q * d->k);
	a->ws = (size_t)(d->k * d->c) * taps;
	a->x = numbers(&r, dtype, a->xs);
	a->w = numbers(&r, dtype, a->ws);
	a->b = numbers(&r, DTYPE_F32, a->k);
	a->dy = numbers(&r, dtype, a->ys);
	a->xd = stored(dtype, a->x, a->xs);
	a->wd = stored(dtype, a->w, a->ws);
	a->dyd = stored(dtype, a->dy, a->ys);
	a->xp = planes(a->x, n, (size_t)d->c, (size_t)(d->h * d->w));
	a->wp = planes(a->w, a->k, (size_t)d->c, taps);
	a->dyp = planes(a->dy, n, a->k, (size_t)(d->p * d->q));
	a->yp = xcalloc(a->ys, sizeof(float));
	a->dxp = xcalloc(a->xs, sizeof(float));
	a->dwp = xcalloc(a->ws, sizeof(float));
	a->db = xcalloc(a->k, sizeof(float));
	op_conv_forward(&op, a->xp, a->wp, a->b, a->yp);
	op_conv_backward_data(&op, a->dyp, a->wp, a->dxp);
	op_conv_backward_weights(&op, a->xp, a->dyp, a->dwp, a->db);
	a->scratch.memory = xcalloc(kernel_conv_scratch(d, dtype) + 1, 1);
	a->scratch.tickets = xcalloc(KERNEL_TICKETS, sizeof(uint32_t));
}

static void free_arrays(struct arrays *a)
{
	void *all[] = { a->x, a->w, a->b, a->dy, a->xp, a->wp, a->yp, a->dyp, a->dxp, a->dwp, a->db,
		a->xd, a->wd, a->dyd, a->scratch.memory, a->scratch.tickets };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
}

static void check_forward(const struct conv_case *c, enum dtype dtype)
{
	const struct kernel_conv *d = &c->d;
	struct kernel_after after = { .relu = 1 };
	struct arrays a;
	float *want;
	void *y;

	make_arrays(d, dtype, &a);
	after.bias = a.b;
	y = room(dtype, a.ys);
	op_relu_forward(a.ys, a.yp, a.yp);
	want = pixels_first(a.yp, (size_t)d->n, a.k, (size_t)(d->p * d->q));
	assert_int_equal(kernel_conv_forward(d, dtype, a.xd, a.wd, &after, y, &a.scratch, NULL), 0);
	assert_close(c->what, dtype, y, want, a.ys, d->c * d->r * d->r);
	for (int i = 0; i < KERNEL_TICKETS; i++)
		assert_int_equal(a.scratch.tickets[i], 0);
	free(y);
	free(want);
	free_arrays(&a);
}

static void convolutions_forward_with_bias_and_relu_are_the_loops(void **state)
{
	for (size_t i = 0; i < CONVS; i++)
		for (size_t t = 0; t < 3; t++)
			check_forward(&convs[i], dtypes[t]);
}

static void check_backward_data(const struct conv_case *c, enum dtype dtype, int plain)
{
	const struct kernel_conv *d = &c->d;
	struct kernel_before before = { 0 };
	struct arrays a;
	float *want;
	void *dx;

	make_arrays(d, dtype, &a);
	want = pixels_first(a.dxp, (size_t)d->n, (size_t)d->c, (size_t)(d->h * d->w));
	dx = plain ? room(dtype, a.xs) : stored(dtype, a.x, a.xs);
	if (!plain) {
		/* Gradient of a ReLU and dropout, on top of what is there. */
		before = (struct kernel_before){ .relu_of = a.xd, .scale = 2, .accumulate = 1 };
		for (size_t i = 0; i < a.xs; i++)
			want[i] = a.x[i] > 0 ? 2 * (want[i] + a.x[i]) : 0;
	}
	assert_int_equal(
		kernel_conv_backward_data(d, dtype, a.dyd, a.wd, &before, dx, &a.scratch, NULL), 0);
	assert_close(c->what, dtype, dx, want, a.xs, 4 * d->k * d->r * d->r);
	free(dx);
	free(want);
	free_arrays(&a);
}

static void gradients_of_inputs_are_the_loops(void **state)
{
	for (size_t i = 0; i < CONVS; i++)
		for (size_t t = 0; t < 3; t++) {
			check_backward_data(&convs[i], dtypes[t], 1);
			check_backward_data(&convs[i], dtypes[t], 0);
		}
}

static void check_backward_weights(const struct conv_case *c, enum dtype dtype, int splits)
{
	const struct kernel_conv *d = &c->d;
	struct arrays a;
	float *want, *partial, *sum;
	size_t stride;

	make_arrays(d, dtype, &a);
	stride = a.ws + a.k + 3;
	want = pixels_first(a.dwp, a.k, (size_t)d->c, (size_t)(d->r * d->r));
	partial = room(DTYPE_F32, stride * (size_t)splits);
	sum = room(DTYPE_F32, a.ws + a.k);
	assert_int_equal(kernel_conv_backward_weights(
				 d, dtype, a.xd, a.dyd, splits, stride, 1, partial, NULL),
		0);
	assert_int_equal(kernel_sum(splits, stride, a.ws + a.k, partial, sum, NULL), 0);
	assert_floats(c->what, dtype, sum, want, a.ws, d->n * d->p * d->q);
	assert_floats(c->what, dtype, sum + a.ws, a.db, a.k, d->n * d->p * d->q);
	free(partial);
	free(sum);
	free(want);
	free_arrays(&a);
}

static void gradients_of_weights_and_biases_are_the_loops(void **state)
{
	for (size_t i = 0; i < CONVS; i++)
		for (size_t t = 0; t < 3; t++) {
			check_backward_weights(
				&convs[i], dtypes[t], kernel_conv_splits(&convs[i].d, dtypes[t]));
			check_backward_weights(&convs[i], dtypes[t], 3);
		}
}

/* The winner of a window holds the greatest value there; of equals any may have won by rounding. */
static void check_winners(const struct kernel_conv *d, enum dtype dtype, const float *yp,
	const void *y, const uint8_t *winners)
{
	int p = d->p / 2, q = d->q / 2;
	size_t bytes = kernel_winner_bytes(d->k);

	for (int m = 0; m < d->n * p * q; m++)
		for (int k = 0; k < d->k; k++) {
			int place =
				winners[(size_t)m * bytes + (size_t)(k / 4)] >> (2 * (k % 4)) & 3;
			int n = m / (p * q), i = m / q % p * 2 + place / 2,
			    j = m % q * 2 + place % 2;
			float at = yp[((n * d->k + k) * d->p + i) * d->q + j];

			assert_close("the winner", dtype,
				(const char *)y + (size_t)(m * d->k + k) * kernel_size(dtype), &at,
				1, d->c * d->r * d->r);
		}
}

/* Of equals the first wins: with nothing but zeros every place is 0. */
static void check_pooled(const struct kernel_conv *d, enum dtype dtype, int zeros)
{
	struct kernel_after after = { .relu = 1 };
	struct op_pool pool = { d->n, d->k, d->p, d->q, 2, 2, d->p / 2, d->q / 2 };
	size_t pixels = (size_t)(d->p / 2) * (size_t)(d->q / 2), n = (size_t)d->n;
	uint8_t *winner, *winners = room(DTYPE_F32, n * pixels * kernel_winner_bytes(d->k));
	struct arrays a;
	float *want, *pooled;
	void *y;

	make_arrays(d, dtype, &a);
	after.bias = a.b;
	after.winners = winners;
	if (zeros) {
		memset(a.wd, 0, a.ws * kernel_size(dtype));
		for (size_t i = 0; i < a.k; i++)
			a.b[i] = -1;
		memset(a.yp, 0, a.ys * sizeof(float));
	}
	op_relu_forward(a.ys, a.yp, a.yp);
	pooled = xcalloc(n * pixels * a.k, sizeof(float));
	winner = xcalloc(n * pixels * a.k, 1);
	op_pool_forward(&pool, a.yp, pooled, winner);
	want = pixels_first(pooled, n, a.k, pixels);
	y = room(dtype, n * pixels * a.k);
	assert_int_equal(kernel_conv_forward(d, dtype, a.xd, a.wd, &after, y, &a.scratch, NULL), 0);
	assert_close("pooled", dtype, y, want, n * pixels * a.k, d->c * d->r * d->r);
	check_winners(d, dtype, a.yp, y, winners);
	for (size_t i = 0; zeros && i < n * pixels * kernel_winner_bytes(d->k); i++)
		assert_int_equal(winners[i], 0);
	free(winners);
	free(winner);
	free(want);
	free(pooled);
	free(y);
	free_arrays(&a);
}

static void maxima_fused_to_a_convolution_are_the_loops(void **state)
{
	static const struct kernel_conv shapes[] = { CONV(2, 8, 8, 8, 16, 3, 1, 1),
		CONV(2, 16, 7, 9, 20, 3, 1, 1), CONV(1, 3, 5, 6, 5, 3, 1, 1),
		CONV(1, 128, 4, 4, 8, 5, 1, 2) };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (size_t t = 0; t < DTYPES; t++) {
			check_pooled(&shapes[i], dtypes[t], 0);
			check_pooled(&shapes[i], dtypes[t], 1);
		}
}

/* Training that diverged is to show it, also through maxima and ReLU. */
static void a_nan_among_pixels_is_the_maximum(void **state)
{
	static const struct kernel_conv d = CONV(2, 8, 8, 8, 16, 3, 1, 1);
	struct kernel_after after = { .relu = 1 };

	for (size_t t = 0; t < DTYPES; t++) {
		size_t n = 2 * 4 * 4 * 16;
		struct arrays a;
		void *y = xcalloc(n, sizeof(float)), *x = room(dtypes[t], 1);

		make_arrays(&d, dtypes[t], &a);
		after.winners = room(DTYPE_F32, n);
		/* All taps of pixel (2, 2), which windows around it meet with, are NaN. */
		memcpy((char *)a.xd + 18 * 8 * kernel_size(dtypes[t]), x, kernel_size(dtypes[t]));
		assert_int_equal(
			kernel_conv_forward(&d, dtypes[t], a.xd, a.wd, &after, y, &a.scratch, NULL),
			0);
		for (int i = 0; i < 4 * 4 * 16; i++) {
			int row = i / 64, column = i / 16 % 4;
			float got = value(dtypes[t], y, (size_t)i);

			assert_int_equal(got != got, row <= 1 && column <= 1);
		}
		free(after.winners);
		free(x);
		free(y);
		free_arrays(&a);
	}
}

/*
 * Images that stay in shared memory while taps are read: on a GPU of 2 multiprocessors these shapes
 * have tiles of 256 rows, on one of 6 of 128.
 */
static void convolutions_whose_images_stay_in_shared_memory_are_the_loops(void **state)
{
	static const struct conv_case nears[] = {
		{ "forward and back", CONV(6, 32, 14, 14, 64, 3, 1, 1) },
		{ "two slices a tap, 5x5", CONV(7, 64, 13, 12, 32, 5, 1, 2) },
		{ "without a border", CONV(14, 32, 11, 10, 32, 3, 1, 0) },
		{ "filters that fill no tile", CONV(15, 32, 7, 10, 40, 2, 1, 1) },
	};
	static const int multiprocessors[] = { 2, 6 }, rows[] = { 256, 128 };

	for (size_t i = 0; i < 8; i++) {
		const struct conv_case *c = &nears[i / 2];
		const struct kernel_conv *d = &c->d;
		int tile = rows[i % 2];

		cuda_on_cpu_multiprocessors = multiprocessors[i % 2];
		check_pooled(d, DTYPE_BF16, 0);
		check_backward_data(c, DTYPE_BF16, 1);
		check_backward_data(c, DTYPE_BF16, 0);
		check_forward(c, DTYPE_BF16);
		/* 64 columns at most: the tiles are as many as rows fill. */
		assert_int_equal(cuda_on_cpu_blocks(), (d->n * d->p * d->q + tile - 1) / tile);
		cuda_on_cpu_multiprocessors = 132;
	}
}

/* The second of two uploaded steps, on the second of two ranks. */
static void dropout_fused_to_a_dense_layer_draws_the_named_numbers(void **state)
{
	struct kernel_conv d = kernel_dense(9, 24, 30);
	struct kernel_step steps[2] = { { .seed = 1 },
		{ .seed = 7, .number = (uint64_t)5 << 32 | 3 } };
	kernel_now now = 1;
	struct kernel_after after = {
		.rate = 0.4F, .layer = 6, .first = 18, .step = steps, .now = &now
	};
	float *mask = xcalloc(10 * 30, sizeof(float));

	/* The first element that is asked for must be a multiple of 4. */
	rng_dropout(7, steps[1].number, 6, 0.4F, 18 * 30 / 4 * 4, mask, 10 * 30);
	for (size_t t = 0; t < DTYPES; t++) {
		struct arrays a;
		void *y;

		make_arrays(&d, dtypes[t], &a);
		y = room(dtypes[t], a.ys);
		after.bias = a.b;
		op_dropout(a.ys, a.yp, mask + 18 * 30 % 4, a.yp);
		assert_int_equal(
			kernel_conv_forward(&d, dtypes[t], a.xd, a.wd, &after, y, &a.scratch, NULL),
			0);
		assert_close("dropout", dtypes[t], y, a.yp, a.ys, 60);
		free(y);
		free_arrays(&a);
	}
	free(mask);
}

static void logits_can_be_floats_whatever_the_dtype(void **state)
{
	struct kernel_conv d = kernel_dense(5, 16, 10);
	struct kernel_after after = { .as_float = 1 };
	struct arrays a;
	float *y;

	make_arrays(&d, DTYPE_BF16, &a);
	after.bias = a.b;
	y = room(DTYPE_F32, a.ys);
	assert_int_equal(
		kernel_conv_forward(&d, DTYPE_BF16, a.xd, a.wd, &after, y, &a.scratch, NULL), 0);
	assert_floats("logits", DTYPE_BF16, y, a.yp, a.ys, 16);
	free(y);
	free_arrays(&a);
}

/* Memory that starts in the middle of 16 bytes is computed with all the same. */
static void arrays_that_are_not_aligned_take_the_slow_path(void **state)
{
	static const struct kernel_conv d = CONV(2, 8, 5, 5, 8, 3, 1, 1);
	struct kernel_after after = { .relu = 0 };
	struct arrays a;
	char *x;
	float *want, *y;

	make_arrays(&d, DTYPE_F32, &a);
	after.bias = a.b;
	want = pixels_first(a.yp, 2, a.k, 25);
	x = xcalloc(a.xs + 1, sizeof(float));
	memcpy(x + 4, a.xd, a.xs * sizeof(float));
	y = room(DTYPE_F32, a.ys);
	assert_int_equal(
		kernel_conv_forward(&d, DTYPE_F32, x + 4, a.wd, &after, y, &a.scratch, NULL), 0);
	assert_floats("unaligned", DTYPE_F32, y, want, a.ys, 72);
	free(x);
	free(y);
	free(want);
	free_arrays(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convolutions_forward_with_bias_and_relu_are_the_loops),
		cmocka_unit_test(maxima_fused_to_a_convolution_are_the_loops),
		cmocka_unit_test(a_nan_among_pixels_is_the_maximum),
		cmocka_unit_test(convolutions_whose_images_stay_in_shared_memory_are_the_loops),
		cmocka_unit_test(dropout_fused_to_a_dense_layer_draws_the_named_numbers),
		cmocka_unit_test(logits_can_be_floats_whatever_the_dtype),
		cmocka_unit_test(arrays_that_are_not_aligned_take_the_slow_path),
		cmocka_unit_test(gradients_of_inputs_are_the_loops),
		cmocka_unit_test(gradients_of_weights_and_biases_are_the_loops),
	};

	return run_in_every_order(tests, sizeof(tests) / sizeof(tests[0]));
}
