/*
 * The GPU's kernels of pooling, batch norm, ReLU, sums and dropout, run on the CPU (cuda_on_cpu/),
 * against plain loops: every dtype, odd sizes, all orders of threads.
 */
#include "unit.h"
#include "kernel_arrays.h"
#include "backend/ops.h"

#include <math.h>

/* --- element by element --- */

static void check_elements(enum dtype dtype, size_t n)
{
	struct rng r;
	float *a, *b, *want = xcalloc(n, sizeof(float));
	void *ad, *bd, *y = room(dtype, n);

	rng_init(&r, 1, RNG_TEST, n);
	a = numbers(&r, dtype, n);
	b = numbers(&r, dtype, n);
	ad = stored(dtype, a, n);
	bd = stored(dtype, b, n);
	op_relu_forward(n, a, want);
	assert_int_equal(kernel_relu_forward(n, dtype, ad, y, NULL), 0);
	assert_close("relu", dtype, y, want, n, 0);
	op_relu_backward(n, a, b, want);
	for (size_t i = 0; i < n; i++)
		want[i] *= 4;
	assert_int_equal(kernel_relu_backward(n, dtype, ad, bd, 4, y, NULL), 0);
	assert_close("relu backward", dtype, y, want, n, 0);
	for (size_t i = 0; i < n; i++)
		want[i] = a[i] + b[i];
	assert_int_equal(kernel_add(n, dtype, ad, bd, 0, y, NULL), 0);
	assert_close("sum", dtype, y, want, n, 0);
	op_relu_forward(n, want, want);
	assert_int_equal(kernel_add(n, dtype, ad, bd, 1, ad, NULL), 0);
	assert_close("sum and relu in place", dtype, ad, want, n, 0);
	assert_int_equal(kernel_from_float(n, dtype, b, y, NULL), 0);
	assert_memory_equal(y, bd, n * kernel_size(dtype));
	assert_int_equal(kernel_to_float(n, dtype, bd, want, NULL), 0);
	assert_memory_equal(want, b, n * sizeof(float));
	free(a);
	free(b);
	free(ad);
	free(bd);
	free(want);
	free(y);
}

static void relu_sums_and_conversions_are_the_loops(void **state)
{
	for (size_t t = 0; t < DTYPES; t++) {
		check_elements(dtypes[t], 1);
		check_elements(dtypes[t], 4096);
		check_elements(dtypes[t], 4099);
	}
}

/* The mask is named in the order [c][h][w], whatever the layout; the gradient's is the same. */
static void dropout_draws_the_numbers_that_are_named_by_step_layer_and_row(void **state)
{
	enum { N = 3, C = 6, PIXELS = 10, COUNT = N * C * PIXELS };
	struct kernel_step steps[2] = { { .seed = 3 }, { .seed = 9, .number = 12 } };
	kernel_now now = 1;
	struct kernel_dropout d = { N, PIXELS, C, 0.3F, 4, 5, steps, &now };
	float mask[COUNT], *nhwc;
	struct rng r;

	rng_init(&r, 2, RNG_TEST, 0);
	rng_dropout(9, 12, 4, 0.3F, 5 * C * PIXELS, mask, COUNT);
	nhwc = pixels_first(mask, N, C, PIXELS);
	for (size_t t = 0; t < DTYPES; t++) {
		float *x = numbers(&r, dtypes[t], COUNT), want[COUNT];
		void *xd = stored(dtypes[t], x, COUNT), *y = room(dtypes[t], COUNT);

		op_dropout(COUNT, x, nhwc, want);
		assert_int_equal(kernel_dropout(&d, dtypes[t], xd, y, NULL), 0);
		assert_close("dropout", dtypes[t], y, want, COUNT, 0);
		free(x);
		free(xd);
		free(y);
	}
	free(nhwc);
}

/* --- pooling --- */

static const struct kernel_pool pools[] = {
	{ 2, 16, 8, 6, 2, 2, 4, 3 }, { 2, 5, 7, 9, 2, 2, 3, 4 }, { 1, 8, 9, 9, 3, 3, 3, 3 },
	{ 2, 12, 9, 8, 3, 2, 4, 3 }, /* windows that overlap */
	{ 1, 3, 9, 8, 2, 3, 3, 3 },  /* windows apart */
};

#define POOLS (sizeof(pools) / sizeof(pools[0]))

/* Windows in NHWC: y and what each window's place won, or the mean. */
static void pool_loops(
	const struct kernel_pool *d, const float *x, float *y, uint8_t *winner, int mean)
{
	for (int m = 0; m < d->n * d->p * d->q * d->c; m++) {
		int c = m % d->c, q = m / d->c % d->q, p = m / d->c / d->q % d->p;
		int n = m / d->c / d->q / d->p;
		double sum = 0;

		for (int s = 0; s < d->size * d->size; s++) {
			int i = p * d->stride + s / d->size, j = q * d->stride + s % d->size;
			float v = x[((n * d->h + i) * d->w + j) * d->c + c];

			sum += v;
			if (s == 0 || v > y[m]) {
				y[m] = v;
				winner[m] = (uint8_t)s;
			}
		}
		if (mean)
			y[m] = (float)(sum / (d->size * d->size));
	}
}

static void pool_gradient_loops(
	const struct kernel_pool *d, const float *dy, const uint8_t *winner, float *dx, int mean)
{
	memset(dx, 0, sizeof(float) * (size_t)(d->n * d->h * d->w * d->c));
	for (int m = 0; m < d->n * d->p * d->q * d->c; m++) {
		int c = m % d->c, q = m / d->c % d->q, p = m / d->c / d->q % d->p;
		int n = m / d->c / d->q / d->p;

		for (int s = 0; s < d->size * d->size; s++) {
			int i = p * d->stride + s / d->size, j = q * d->stride + s % d->size;
			float *to = &dx[((n * d->h + i) * d->w + j) * d->c + c];

			if (mean)
				*to += dy[m] / (float)(d->size * d->size);
			else if (winner[m] == s)
				*to += dy[m];
		}
	}
}

static void check_pool(const struct kernel_pool *d, enum dtype dtype, int mean)
{
	size_t xs = (size_t)(d->n * d->h * d->w * d->c), ys = (size_t)(d->n * d->p * d->q * d->c);
	float *x, *dy, *y = xcalloc(ys, sizeof(float)), *dx = xcalloc(xs, sizeof(float));
	uint8_t *winner = xcalloc(ys, 1), *got = xcalloc(ys, 1);
	void *xd, *dyd, *yd = room(dtype, ys), *dxd = room(dtype, xs);
	struct rng r;

	rng_init(&r, 3, RNG_TEST, 0);
	x = numbers(&r, dtype, xs);
	dy = numbers(&r, dtype, ys);
	xd = stored(dtype, x, xs);
	dyd = stored(dtype, dy, ys);
	pool_loops(d, x, y, winner, mean);
	pool_gradient_loops(d, dy, winner, dx, mean);
	if (mean) {
		assert_int_equal(kernel_avgpool_forward(d, dtype, xd, yd, NULL), 0);
		assert_int_equal(kernel_avgpool_backward(d, dtype, dyd, dxd, NULL), 0);
	} else {
		assert_int_equal(kernel_maxpool_forward(d, dtype, xd, yd, got, NULL), 0);
		assert_int_equal(kernel_maxpool_backward(d, dtype, dyd, got, dxd, NULL), 0);
		assert_memory_equal(got, winner, ys);
	}
	assert_close("pool", dtype, yd, y, ys, 1);
	assert_close("pool's gradient", dtype, dxd, dx, xs, 1);
	free(x);
	free(dy);
	free(y);
	free(dx);
	free(winner);
	free(got);
	free(xd);
	free(dyd);
	free(yd);
	free(dxd);
}

static void maxima_and_means_of_windows_are_the_loops(void **state)
{
	for (size_t i = 0; i < POOLS; i++)
		for (size_t t = 0; t < DTYPES; t++) {
			check_pool(&pools[i], dtypes[t], 0);
			check_pool(&pools[i], dtypes[t], 1);
		}
}

static void means_of_whole_channels_are_the_loops(void **state)
{
	enum { N = 3, PIXELS = 49 };
	struct rng r;

	rng_init(&r, 5, RNG_TEST, 0);
	for (size_t i = 0; i < 2 * DTYPES; i++) {
		enum dtype dtype = dtypes[i / 2];
		size_t c = i % 2 ? 16 : 7, xs = N * PIXELS * c;
		float *x = numbers(&r, dtype, xs), *dy = numbers(&r, dtype, N * c);
		float *y = xcalloc(N * c, sizeof(float)), *dx = xcalloc(xs, sizeof(float));
		void *xd = stored(dtype, x, xs), *dyd = stored(dtype, dy, N * c);
		void *yd = room(dtype, N * c), *dxd = room(dtype, xs);

		for (size_t m = 0; m < xs; m++) {
			size_t at = m / c / PIXELS * c + m % c;

			y[at] += x[m] / PIXELS;
			dx[m] = dy[at] / PIXELS;
		}
		assert_int_equal(
			kernel_globalpool_forward(N, PIXELS, (int)c, dtype, xd, yd, NULL), 0);
		assert_int_equal(
			kernel_globalpool_backward(N, PIXELS, (int)c, dtype, dyd, dxd, NULL), 0);
		assert_close("means", dtype, yd, y, N * c, 1);
		assert_close("their gradient", dtype, dxd, dx, xs, 0);
		free(x);
		free(dy);
		free(y);
		free(dx);
		free(xd);
		free(dyd);
		free(yd);
		free(dxd);
	}
}

/* --- batch norm --- */

/* Ioffe and Szegedy's equations in double, with the ReLU behind. */
struct norm_want {
	float *y, *dx, *running, *dgamma, *dbeta;
};

static void norm_loops(const struct kernel_norm *d, int c, const float *x, const float *dy,
	const float *gamma, const float *beta, struct norm_want *w)
{
	size_t n = d->rows, step = (size_t)d->c;
	double mean = 0, variance = 0, sum_dy = 0, sum_slope = 0, scale;

	for (size_t i = 0; i < n; i++)
		mean += x[i * step + (size_t)c] / (double)n;
	for (size_t i = 0; i < n; i++)
		variance += pow(x[i * step + (size_t)c] - mean, 2) / (double)n;
	scale = 1 / sqrt(variance + (double)d->epsilon);
	w->running[c] = (float)(0.9 * w->running[c] + 0.1 * mean);
	w->running[d->c + c] =
		(float)(0.9 * w->running[d->c + c] + 0.1 * variance * (double)n / (double)(n - 1));
	for (size_t i = 0; i < n; i++) {
		size_t at = i * step + (size_t)c;
		double y = gamma[c] * (x[at] - mean) * scale + beta[c];

		w->y[at] = (float)(d->relu && y < 0 ? 0 : y);
		if (d->relu && y <= 0)
			continue;
		sum_dy += dy[at];
		sum_slope += dy[at] * (x[at] - mean) * scale;
	}
	w->dbeta[c] = (float)sum_dy;
	w->dgamma[c] = (float)sum_slope;
	for (size_t i = 0; i < n; i++) {
		size_t at = i * step + (size_t)c;
		double g = d->relu && !(w->y[at] > 0) ? 0 : dy[at];

		w->dx[at] = (float)(gamma[c] * scale *
			(g - sum_dy / (double)n - (x[at] - mean) * scale * sum_slope / (double)n));
	}
}

/* Sums over the rows of two ranks, each of which has half of them. */
static void sum_ranks(const struct kernel_norm *d, enum dtype dtype, const char *x, const char *dy,
	const char *y, const float *saved, double *sums)
{
	struct kernel_norm half = *d;
	size_t c = (size_t)d->c, size = kernel_size(dtype);
	double *partial = xcalloc((size_t)kernel_norm_splits(d) * 2 * c, sizeof(double));
	double *part = xcalloc(2 * c, sizeof(double));
	uint32_t ticket = 0;

	memset(sums, 0, 2 * c * sizeof(double));
	for (int rank = 0; rank < 2; rank++) {
		size_t from = rank ? d->rows / 2 : 0;

		half.rows = rank ? d->rows - d->rows / 2 : d->rows / 2;
		assert_int_equal(
			kernel_norm_sums(&half, dtype, x + from * c * size,
				dy ? dy + from * c * size : NULL, y ? y + from * c * size : NULL,
				saved, partial, part, &ticket, NULL),
			0);
		assert_int_equal(ticket, 0);
		for (size_t i = 0; i < 2 * c; i++)
			sums[i] += part[i];
	}
	free(partial);
	free(part);
}

static void check_norm(enum dtype dtype, size_t rows, int channels, int relu)
{
	struct kernel_norm d = { rows, channels, (double)rows, 1e-3F, 0.1F, relu };
	size_t c = (size_t)channels, n = rows * c;
	struct rng r;
	struct norm_want w = { xcalloc(n, 4), xcalloc(n, 4), xcalloc(2 * c, 4), xcalloc(c, 4),
		xcalloc(c, 4) };
	float *x, *dy, *gamma, *beta, *running = xcalloc(2 * c, 4), *saved = xcalloc(2 * c, 4);
	float *dgamma = xcalloc(c, 4), *dbeta = xcalloc(c, 4);
	double *sums = xcalloc(2 * c, sizeof(double));
	void *xd, *dyd, *y = room(dtype, n), *dx = room(dtype, n);

	rng_init(&r, 6, RNG_TEST, 0);
	x = numbers(&r, dtype, n);
	dy = numbers(&r, dtype, n);
	gamma = numbers(&r, DTYPE_F32, c);
	beta = numbers(&r, DTYPE_F32, c);
	xd = stored(dtype, x, n);
	dyd = stored(dtype, dy, n);
	for (size_t i = 0; i < 2 * c; i++)
		w.running[i] = running[i] = (float)i;
	for (int i = 0; i < channels; i++)
		norm_loops(&d, i, x, dy, gamma, beta, &w);
	sum_ranks(&d, dtype, xd, NULL, NULL, NULL, sums);
	assert_int_equal(
		kernel_norm_forward(&d, dtype, xd, sums, gamma, beta, saved, running, y, NULL), 0);
	assert_close("norm", dtype, y, w.y, n, 4);
	assert_floats("running statistics", DTYPE_F32, running, w.running, 2 * c, 1);
	sum_ranks(&d, dtype, xd, dyd, y, saved, sums);
	assert_int_equal(kernel_norm_backward(&d, dtype, xd, dyd, y, sums, sums, gamma, saved,
				 dgamma, dbeta, dx, NULL),
		0);
	assert_close("norm's gradient", dtype, dx, w.dx, n, 16);
	assert_floats("gamma's gradient", DTYPE_F32, dgamma, w.dgamma, c, (double)rows);
	assert_floats("beta's gradient", DTYPE_F32, dbeta, w.dbeta, c, (double)rows);
	for (size_t i = 0; i < n; i++) {
		size_t k = i % c;

		w.y[i] = gamma[k] * (x[i] - running[k]) / sqrtf(running[c + k] + 1e-3F) + beta[k];
		w.y[i] = relu && w.y[i] < 0 ? 0 : w.y[i];
	}
	assert_int_equal(kernel_norm_predict(&d, dtype, xd, running, gamma, beta, y, NULL), 0);
	assert_close("norm, predicting", dtype, y, w.y, n, 100);
	free(w.y);
	free(w.dx);
	free(w.running);
	free(w.dgamma);
	free(w.dbeta);
	free(x);
	free(dy);
	free(gamma);
	free(beta);
	free(running);
	free(saved);
	free(dgamma);
	free(dbeta);
	free(sums);
	free(xd);
	free(dyd);
	free(y);
	free(dx);
}

static void sums_of_channels_are_the_loops(void **state)
{
	enum { ROWS = 500 };
	struct rng r;

	rng_init(&r, 7, RNG_TEST, 0);
	for (size_t i = 0; i < 2 * DTYPES; i++) {
		struct kernel_norm d = { .rows = ROWS, .c = i % 2 ? 64 : 7 };
		enum dtype dtype = dtypes[i / 2];
		size_t c = (size_t)d.c, n = ROWS * c;
		float *x = numbers(&r, dtype, n), *want = xcalloc(c, 4), *sums = xcalloc(c, 4);
		double *partial = xcalloc((size_t)kernel_norm_splits(&d) * 2 * c, sizeof(double));
		void *xd = stored(dtype, x, n);
		uint32_t ticket = 0;

		for (size_t k = 0; k < n; k++)
			want[k % c] += x[k];
		assert_int_equal(
			kernel_channel_sums(&d, dtype, xd, partial, sums, &ticket, NULL), 0);
		assert_floats("sums of channels", DTYPE_F32, sums, want, c, ROWS);
		assert_int_equal(ticket, 0);
		free(x);
		free(want);
		free(sums);
		free(partial);
		free(xd);
	}
}

static void batch_norm_over_ranks_is_the_loops(void **state)
{
	for (size_t t = 0; t < DTYPES; t++) {
		check_norm(dtypes[t], 20, 8, 0);
		check_norm(dtypes[t], 700, 37, 0);
		check_norm(dtypes[t], 300, 40, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(relu_sums_and_conversions_are_the_loops),
		cmocka_unit_test(dropout_draws_the_numbers_that_are_named_by_step_layer_and_row),
		cmocka_unit_test(maxima_and_means_of_windows_are_the_loops),
		cmocka_unit_test(means_of_whole_channels_are_the_loops),
		cmocka_unit_test(sums_of_channels_are_the_loops),
		cmocka_unit_test(batch_norm_over_ranks_is_the_loops),
	};

	return run_in_every_order(tests, sizeof(tests) / sizeof(tests[0]));
}
