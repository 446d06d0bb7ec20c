/*
 * The GPU's kernels beside convolutions, run on the CPU (cuda_on_cpu/), against plain loops: every
 * dtype, odd sizes, all orders of threads.
 */
#include "unit.h"
#include "kernel_arrays.h"
#include "backend/ops.h"
#include "optimiser/optimiser.h"

#include <math.h>

/* --- images --- */

#define ROWS 3

/* Two uploaded steps of a set of 20 images; the second step is the one computed. */
struct images {
	int c, h, w;
	uint8_t bytes[20 * 4 * 30 * 30];
	uint32_t index[2 * ROWS];
	struct augment augment[2 * ROWS];
	kernel_now now;
	struct kernel_source source;
	float *want; /* [ROWS][c][h][w] of the second step */
};

static struct images *images_new(int c, int h, int w, int altered)
{
	struct images *s = xcalloc(1, sizeof(*s));
	struct batch batch = { .rows = ROWS, .images = s->bytes, .index = s->index + ROWS };
	struct rng r;

	rng_init(&r, 2, RNG_TEST, 0);
	for (size_t i = 0; i < sizeof(s->bytes); i++)
		s->bytes[i] = (uint8_t)rng_next(&r);
	for (size_t i = 0; i < 2 * ROWS; i++)
		s->index[i] = rng_below(&r, 20);
	s->augment[ROWS] = (struct augment){ .down = -2, .right = 3, .flip = 1 };
	s->augment[ROWS + 1] = (struct augment){ .down = 1, .cut = 4, .cut_y = -2, .cut_x = 3 };
	s->now = 1;
	s->source = (struct kernel_source){ .images = s->bytes,
		.index = s->index,
		.now = &s->now,
		.rows = ROWS,
		.c = c,
		.h = h,
		.w = w,
		.norm = { { 127.5F, 100, 3, 50 }, { 255, 64, 2, 10 } } };
	if (altered) {
		s->source.augment = s->augment;
		batch.augment = s->augment + ROWS;
	}
	s->want = xcalloc((size_t)(ROWS * c * h * w), sizeof(float));
	batch_gather(&batch, c, h, w, &s->source.norm, 0, ROWS, s->want);
	return s;
}

static void images_free(struct images *s)
{
	free(s->want);
	free(s);
}

static void images_are_gathered_and_altered_as_on_the_cpu(void **state)
{
	for (int c = 1; c <= 4; c++)
		for (size_t t = 0; t < DTYPES; t++) {
			struct images *s = images_new(c, 7, 9, c % 2);
			size_t n = (size_t)(ROWS * c * 7 * 9);
			float *want = pixels_first(s->want, ROWS, (size_t)c, 7 * 9);
			void *y = room(dtypes[t], n);

			assert_int_equal(kernel_gather(&s->source, dtypes[t], y, NULL), 0);
			assert_close("gather", dtypes[t], y, want, n, 0);
			free(want);
			free(y);
			images_free(s);
		}
}

/* Without an index a step's images follow those of the step before. */
static void staged_images_are_taken_in_order(void **state)
{
	struct images *s = images_new(1, 5, 5, 0);
	float y[ROWS * 25];

	s->source.index = NULL;
	assert_int_equal(kernel_gather(&s->source, DTYPE_F32, y, NULL), 0);
	for (int i = 0; i < ROWS * 25; i++)
		assert_float_equal(y[i], ((float)s->bytes[ROWS * 25 + i] - 127.5F) / 255, 0);
	images_free(s);
}

/* --- the first convolution, from bytes --- */

struct few_case {
	int c, h, w, k, r, stride, pad, altered;
};

static const struct few_case fews[] = {
	{ 1, 28, 28, 32, 5, 1, 2, 0 }, { 1, 9, 11, 40, 3, 1, 1, 1 }, { 3, 12, 10, 7, 5, 1, 0, 1 },
	{ 4, 13, 9, 33, 3, 2, 1, 0 }, { 2, 30, 27, 16, 7, 3, 3, 0 }, { 2, 10, 14, 40, 3, 1, 1, 1 },
	{ 2, 9, 11, 12, 4, 1, 2, 1 }, /* 32 taps: that of ones has a tile to itself */
};

static struct kernel_conv few_conv(const struct few_case *f)
{
	return (struct kernel_conv){ ROWS, f->c, f->h, f->w, f->k, f->r, f->stride, f->pad,
		(f->h + 2 * f->pad - f->r) / f->stride + 1,
		(f->w + 2 * f->pad - f->r) / f->stride + 1 };
}

static struct op_conv op_of(const struct kernel_conv *d)
{
	return (struct op_conv){ d->n, d->c, d->h, d->w, d->k, d->r, d->stride, d->pad, d->p,
		d->q };
}

/* The normalised images as the dtype keeps them. */
static void round_images(struct images *s, enum dtype dtype, size_t n)
{
	void *kept = stored(dtype, s->want, n);

	for (size_t i = 0; i < n; i++)
		s->want[i] = value(dtype, kept, i);
	free(kept);
}

/* Results and winners of a fused 2x2 maximum, or with pooled = 0 of the convolution alone. */
static void check_few_forward(const struct few_case *f, enum dtype dtype, int pooled)
{
	struct kernel_conv d = few_conv(f);
	struct op_conv op = op_of(&d);
	struct images *s = images_new(f->c, f->h, f->w, f->altered);
	size_t ws = (size_t)(f->k * f->c * f->r * f->r), ys = (size_t)(ROWS * f->k * d.p * d.q);
	size_t pixels = pooled ? (size_t)(d.p / 2) * (size_t)(d.q / 2) : (size_t)(d.p * d.q);
	size_t n = ROWS * pixels * (size_t)f->k;
	struct rng r;
	float *w, *wp, *b, *yp = xcalloc(ys, sizeof(float)), *want;
	float *max = xcalloc(ys, sizeof(float));
	uint8_t *place = xcalloc(ys, 1), *winners = room(DTYPE_F32, ys);
	struct kernel_after after = { .relu = 1, .winners = pooled ? winners : NULL };
	struct op_pool pool = { ROWS, f->k, d.p, d.q, 2, 2, d.p / 2, d.q / 2 };
	void *wd, *y = room(dtype, n);

	rng_init(&r, 3, RNG_TEST, 0);
	w = numbers(&r, dtype, ws);
	b = numbers(&r, DTYPE_F32, (size_t)f->k);
	wp = planes(w, (size_t)f->k, (size_t)f->c, (size_t)(f->r * f->r));
	wd = stored(dtype, w, ws);
	round_images(s, dtype, (size_t)(ROWS * f->c * f->h * f->w));
	op_conv_forward(&op, s->want, wp, b, yp);
	op_relu_forward(ys, yp, yp);
	op_pool_forward(&pool, yp, max, place);
	want = pixels_first(pooled ? max : yp, ROWS, (size_t)f->k, pixels);
	after.bias = b;
	assert_int_equal(kernel_few_forward(&d, dtype, &s->source, wd, &after, y, NULL), 0);
	/* Pixels reach 100 or so, and in tf32's place f32 is computed. */
	assert_close("few", dtype == DTYPE_TF32 ? DTYPE_F32 : dtype, y, want, n,
		1e4 * f->c * f->r * f->r);
	for (size_t i = 0; pooled && dtype == DTYPE_F32 && i < n; i++) {
		size_t k = i % (size_t)f->k, m = i / (size_t)f->k;
		int got = winners[m * kernel_winner_bytes(f->k) + k / 4] >> (2 * (k % 4)) & 3;

		/* Of maxima that ReLU ends, any place serves: no gradient passes there. */
		if (want[i] > 0)
			assert_int_equal(
				got, place[(m / pixels * (size_t)f->k + k) * pixels + m % pixels]);
	}
	free(w);
	free(wp);
	free(wd);
	free(b);
	free(yp);
	free(want);
	free(max);
	free(place);
	free(winners);
	free(y);
	images_free(s);
}

static void a_convolution_from_bytes_is_the_loops(void **state)
{
	for (size_t i = 0; i < sizeof(fews) / sizeof(fews[0]); i++)
		for (size_t t = 0; t < DTYPES; t++) {
			check_few_forward(&fews[i], dtypes[t], 0);
			check_few_forward(&fews[i], dtypes[t], 1);
			cuda_on_cpu_multiprocessors = 1; /* whole images a block */
			check_few_forward(&fews[i], dtypes[t], 0);
			check_few_forward(&fews[i], dtypes[t], 1);
			cuda_on_cpu_multiprocessors = 132;
		}
}

/* Random winners in both layouts: the kernel's 2 bits, and op_pool_backward()'s. */
static uint8_t *draw_winners(struct rng *r, size_t n, size_t pixels, int k, uint8_t *planes_of)
{
	size_t bytes = kernel_winner_bytes(k);
	uint8_t *ret = xcalloc(n * pixels, bytes);

	for (size_t m = 0; m < n * pixels; m++)
		for (size_t c = 0; c < (size_t)k; c++) {
			uint32_t place = rng_below(r, 4);

			ret[m * bytes + c / 4] |= (uint8_t)(place << (2 * (c % 4)));
			planes_of[(m / pixels * (size_t)k + c) * pixels + m % pixels] =
				(uint8_t)place;
		}
	return ret;
}

static void check_few_weights(const struct few_case *f, enum dtype dtype, int pooled)
{
	struct kernel_conv d = few_conv(f);
	struct op_conv op = op_of(&d);
	struct op_pool pool = { ROWS, f->k, d.p, d.q, 2, 2, d.p / 2, d.q / 2 };
	struct images *s = images_new(f->c, f->h, f->w, f->altered);
	size_t taps = (size_t)(f->r * f->r), ws = (size_t)(f->k * f->c) * taps, k = (size_t)f->k;
	size_t pixels = pooled ? (size_t)(d.p / 2) * (size_t)(d.q / 2) : (size_t)(d.p * d.q);
	int splits = kernel_few_splits(&d, dtype);
	size_t stride = ws + k + 1;
	float *dy, *dyp, *full = xcalloc(ROWS * k * (size_t)(d.p * d.q), sizeof(float)), *want;
	float *dwp = xcalloc(ws, sizeof(float)), *db = xcalloc(k, sizeof(float));
	float *partial = room(DTYPE_F32, stride * (size_t)splits), *sum = room(DTYPE_F32, ws + k);
	uint8_t *place = xcalloc(ROWS * pixels, k), *winners;
	struct rng r;
	void *dyd;

	rng_init(&r, 4, RNG_TEST, 0);
	dy = numbers(&r, dtype, ROWS * pixels * k);
	dyd = stored(dtype, dy, ROWS * pixels * k);
	dyp = planes(dy, ROWS, k, pixels);
	winners = draw_winners(&r, ROWS, pixels, f->k, place);
	if (pooled)
		op_pool_backward(&pool, dyp, place, full);
	else
		memcpy(full, dyp, ROWS * pixels * k * sizeof(float));
	round_images(s, dtype, (size_t)(ROWS * f->c * f->h * f->w));
	op_conv_backward_weights(&op, s->want, full, dwp, db);
	want = pixels_first(dwp, k, (size_t)f->c, taps);
	assert_int_equal(kernel_few_backward_weights(&d, dtype, &s->source, dyd,
				 pooled ? winners : NULL, splits, stride, partial, NULL),
		0);
	assert_int_equal(kernel_sum(splits, stride, ws + k, partial, sum, NULL), 0);
	assert_floats("few weights", DTYPE_F32, sum, want, ws, 1e4 * ROWS * d.p * d.q);
	assert_floats("few biases", DTYPE_F32, sum + ws, db, k, ROWS * d.p * d.q);
	free(dy);
	free(dyd);
	free(dyp);
	free(full);
	free(want);
	free(dwp);
	free(db);
	free(partial);
	free(sum);
	free(place);
	free(winners);
	images_free(s);
}

static void its_weights_gradient_is_the_loops(void **state)
{
	for (size_t i = 0; i < sizeof(fews) / sizeof(fews[0]); i++)
		for (size_t t = 0; t < DTYPES; t++) {
			check_few_weights(&fews[i], dtypes[t], 0);
			check_few_weights(&fews[i], dtypes[t], 1);
		}
}

static void a_convolution_that_does_not_fit_is_refused(void **state)
{
	struct kernel_conv wide = { 1, 3, 8, 9000, 8, 3, 1, 1, 8, 9000 };
	struct kernel_conv many = { 1, 5, 8, 8, 8, 3, 1, 1, 8, 8 };
	struct kernel_after after = { .relu = 0 };
	struct kernel_source source = { .rows = 1 };

	assert_false(kernel_few_fits(&wide, DTYPE_F32));
	assert_false(kernel_few_fits(&many, DTYPE_BF16));
	assert_int_equal(kernel_few_forward(&many, DTYPE_BF16, &source, NULL, &after, NULL, NULL),
		cudaErrorInvalidValue);
}

/* --- the update --- */

/* Three parts of two tensors' worth, with partial sums, two steps after one another. */
static void check_update(enum kernel_rule rule, int shift, int splits)
{
	static const optimiser_update plain[] = { sgd_plain, adam_plain, adam_decoupled_plain };
	enum { N = 3001, STRIDE = 1500 };
	struct rng r;
	float *p, *v, *g, *want_p, *want_v, *flat = xcalloc(N, sizeof(float));
	float *square = xcalloc(N, sizeof(float)), *want_square = xcalloc(N, sizeof(float));
	size_t parts_end = (size_t)splits * STRIDE;
	uint16_t copy_room[N + 1] __attribute__((aligned(16))), *copy = copy_room + shift;
	uint32_t ticket = 0;
	kernel_now now = 0;
	double partial[2 * KERNEL_UPDATE_BLOCKS];
	struct kernel_step steps[2] = { { .lr = 0.1F, .momentum = 0.9F, .l2 = 0.01F },
		{ .lr = 0.05F, .momentum = 0.9F, .l2 = 0.02F } };
	struct kernel_result results[2] = { { .wrong = 5 }, { .wrong = 6 } };
	struct kernel_part parts[3] = { { .at = 1600, .count = N - 1600, .splits = 1 },
		{ .at = 0, .count = 1300, .splits = splits, .decay = 1, .stride = STRIDE },
		{ .at = 1300, .count = 300, .splits = 1, .decay = 0.5F } };

	for (int i = 0; i < 2; i++) {
		struct adam_factors f = adam_factors(steps[i].lr, steps[i].momentum, (uint64_t)i);

		steps[i].beta2 = ADAM_BETA2;
		steps[i].rate = f.rate;
		steps[i].epsilon = f.epsilon;
	}
	rng_init(&r, 5, RNG_TEST, 0);
	p = (float *)numbers(&r, DTYPE_F32, N + 1) + shift;
	v = numbers(&r, DTYPE_F32, N);
	g = numbers(&r, DTYPE_F32, parts_end + N);
	want_p = stored(DTYPE_F32, p, N);
	want_v = stored(DTYPE_F32, v, N);
	for (int i = 0; i < N; i++) /* a root near 0 would make much of rounding */
		square[i] = want_square[i] = 0.1F + (float)(i % 7);
	parts[1].grad = g;
	parts[0].grad = g + parts_end + 1600;
	parts[2].grad = g + parts_end + 1300;
	memcpy(flat, g + parts_end, N * sizeof(float));
	for (int i = 0; i < 1300; i++) {
		flat[i] = 0;
		for (int k = 0; k < splits; k++)
			flat[i] += g[k * STRIDE + i];
	}
	for (int i = 0; i < 2; i++) {
		struct kernel_update d = { rule, parts, 3, N, p, v, rule ? square : NULL, copy,
			steps, results, &now, partial, &ticket };
		struct optimiser_step want = { .param = want_p,
			.state = { want_v, want_square },
			.grad = flat,
			.number = (uint64_t)i,
			.lr = steps[i].lr,
			.momentum = steps[i].momentum };
		float l2 = steps[i].l2;
		double norm2 = 0, penalty = 0;

		assert_int_equal(kernel_update(&d, NULL), 0);
		for (int k = 0; k < 3; k++) {
			size_t at = parts[k].at;
			double sum = plain[rule](&want, at, parts[k].count, l2 * parts[k].decay);

			norm2 += sum;
			penalty +=
				rule == KERNEL_ADAMW ? 0 : (double)(l2 * parts[k].decay) * sum / 2;
		}
		assert_floats("params", DTYPE_F32, p, want_p, N, 4);
		assert_floats("moment", DTYPE_F32, v, want_v, N, 4);
		assert_floats("square", DTYPE_F32, square, want_square, N, 4);
		assert_close("copy", DTYPE_BF16, copy, want_p, N, 4);
		assert_true(fabs(results[i].norm2 - norm2) < 1e-6 * norm2);
		assert_true(fabs(results[i].penalty - penalty) <= 1e-6 * penalty);
		assert_int_equal(results[i].wrong, 5 + i);
		assert_int_equal(now, i + 1);
		assert_int_equal(ticket, 0);
	}
	free(p - shift);
	free(v);
	free(g);
	free(want_p);
	free(want_v);
	free(flat);
	free(square);
	free(want_square);
}

static void one_launch_updates_every_part_and_counts_the_step(void **state)
{
	for (enum kernel_rule rule = KERNEL_SGD; rule <= KERNEL_ADAMW; rule++) {
		check_update(rule, 0, 3);
		check_update(rule, 1, 3);  /* nothing can be moved in fours */
		check_update(rule, 0, 37); /* lanes share the sums */
		check_update(rule, 1, 37);
	}
}

/* --- loss --- */

enum { LOSS_ROWS = 37, INPUTS = 50 };

/* The second of two steps' labels. */
static struct kernel_loss loss_of(int classes, uint16_t *labels, struct kernel_result *result,
	double *partial, uint32_t *ticket, const kernel_now *now)
{
	struct rng r;

	rng_init(&r, 6, RNG_TEST, 0);
	for (int i = 0; i < 2 * LOSS_ROWS; i++)
		labels[i] = (uint16_t)rng_below(&r, (uint32_t)classes);
	return (struct kernel_loss){ LOSS_ROWS, classes, 2.0 * LOSS_ROWS, labels, now, result,
		partial, ticket };
}

static void check_loss(int classes, enum dtype dtype)
{
	uint16_t labels[2 * LOSS_ROWS];
	struct kernel_result result[2] = { { 0 } };
	double partial[2 * KERNEL_LOSS_BLOCKS], want;
	uint32_t ticket = 0;
	kernel_now now = 1;
	struct kernel_loss d = loss_of(classes, labels, result, partial, &ticket, &now);
	size_t n = (size_t)(LOSS_ROWS * classes);
	float *logits, *slope = xcalloc(n, sizeof(float));
	void *dx = room(dtype, n);
	struct rng r;
	int wrong;

	rng_init(&r, 7, RNG_TEST, 0);
	logits = numbers(&r, DTYPE_F32, n);
	logits[0] = logits[classes - 1] = 1; /* equals: the first is the answer */
	want = op_softmax_loss(LOSS_ROWS, classes, logits, labels + LOSS_ROWS, slope, &wrong);
	for (size_t i = 0; i < n; i++)
		slope[i] /= 2; /* two ranks */
	assert_int_equal(kernel_loss(&d, dtype, logits, dx, NULL), 0);
	assert_close("loss", dtype, dx, slope, n, 0.01);
	assert_true(fabs(result[1].cross_entropy - want) < 1e-5);
	assert_int_equal(result[1].wrong, wrong);
	assert_int_equal(ticket, 0);

	logits[3] = NAN;
	op_softmax_loss(LOSS_ROWS, classes, logits, labels + LOSS_ROWS, slope, &wrong);
	assert_int_equal(kernel_loss(&d, dtype, logits, NULL, NULL), 0);
	assert_true(isnan(result[1].cross_entropy));
	assert_int_equal(result[1].wrong, wrong);
	free(logits);
	free(slope);
	free(dx);
}

static void the_loss_its_gradient_and_the_wrong_are_the_loops(void **state)
{
	for (size_t t = 0; t < DTYPES; t++) {
		check_loss(10, dtypes[t]);
		check_loss(70, dtypes[t]);
	}
}

/* Dense layer, loss and backward pass, from the plain loops; dx after a ReLU and dropout of 1/2. */
struct head_want {
	float logits[LOSS_ROWS * 32], slope[LOSS_ROWS * 32], dx[LOSS_ROWS * INPUTS];
	float grads[32 * INPUTS + 32];
	double loss;
	int wrong;
};

static void head_loops(int classes, const float *x, const float *w, const float *b,
	const uint16_t *labels, struct head_want *want)
{
	struct op_conv d = op_dense(LOSS_ROWS, INPUTS, classes);

	op_conv_forward(&d, x, w, b, want->logits);
	want->loss = op_softmax_loss(
		LOSS_ROWS, classes, want->logits, labels, want->slope, &want->wrong);
	for (int i = 0; i < LOSS_ROWS * classes; i++)
		want->slope[i] /= 2; /* two ranks */
	op_conv_backward_data(&d, want->slope, w, want->dx);
	op_conv_backward_weights(&d, x, want->slope, want->grads, want->grads + classes * INPUTS);
	for (int i = 0; i < LOSS_ROWS * INPUTS; i++)
		want->dx[i] = x[i] > 0 ? 2 * want->dx[i] : 0;
}

static void check_head(int classes, enum dtype dtype, int splits)
{
	uint16_t labels[2 * LOSS_ROWS];
	struct kernel_result result[2] = { { 0 } };
	double partial[2 * KERNEL_LOSS_BLOCKS];
	uint32_t ticket = 0;
	kernel_now now = 1;
	struct kernel_loss d = loss_of(classes, labels, result, partial, &ticket, &now);
	size_t count = (size_t)(classes * INPUTS + classes), stride = count + 5;
	struct head_want *want = xcalloc(1, sizeof(*want));
	struct kernel_before before = { .scale = 2 };
	float *x, *w, *b, *parts = room(DTYPE_F32, stride * (size_t)splits);
	float *grads = room(DTYPE_F32, count), logits[LOSS_ROWS * 32];
	void *xd, *dx = room(dtype, LOSS_ROWS * INPUTS);
	struct rng r;

	rng_init(&r, 8, RNG_TEST, 0);
	x = numbers(&r, dtype, LOSS_ROWS * INPUTS);
	w = numbers(&r, DTYPE_F32, (size_t)(classes * INPUTS));
	b = numbers(&r, DTYPE_F32, (size_t)classes);
	xd = stored(dtype, x, LOSS_ROWS * INPUTS);
	before.relu_of = xd;
	head_loops(classes, x, w, b, labels + LOSS_ROWS, want);
	assert_int_equal(kernel_head(&d, dtype, INPUTS, xd, w, b, &before, dx, splits, stride,
				 parts, logits, NULL),
		0);
	assert_int_equal(kernel_sum(splits, stride, count, parts, grads, NULL), 0);
	assert_floats("head's logits", DTYPE_F32, logits, want->logits,
		(size_t)(LOSS_ROWS * classes), INPUTS);
	assert_close("head's dx", dtype, dx, want->dx, LOSS_ROWS * INPUTS, 1);
	assert_floats("head's gradients", DTYPE_F32, grads, want->grads, count, 1);
	assert_true(fabs(result[1].cross_entropy - want->loss) < 1e-5);
	assert_int_equal(result[1].wrong, want->wrong);
	assert_int_equal(ticket, 0);
	free(want);
	free(x);
	free(xd);
	free(w);
	free(b);
	free(parts);
	free(grads);
	free(dx);
}

static void the_head_is_a_dense_layer_the_loss_and_their_gradients(void **state)
{
	for (size_t t = 0; t < DTYPES; t++) {
		check_head(10, dtypes[t], kernel_head_splits(LOSS_ROWS));
		check_head(32, dtypes[t], 1);
		check_head(3, dtypes[t], LOSS_ROWS);
	}
	assert_false(kernel_head_fits(33, 10));
	assert_false(kernel_head_fits(10, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(images_are_gathered_and_altered_as_on_the_cpu),
		cmocka_unit_test(staged_images_are_taken_in_order),
		cmocka_unit_test(a_convolution_from_bytes_is_the_loops),
		cmocka_unit_test(its_weights_gradient_is_the_loops),
		cmocka_unit_test(a_convolution_that_does_not_fit_is_refused),
		cmocka_unit_test(one_launch_updates_every_part_and_counts_the_step),
		cmocka_unit_test(the_loss_its_gradient_and_the_wrong_are_the_loops),
		cmocka_unit_test(the_head_is_a_dense_layer_the_loss_and_their_gradients),
	};

	return run_in_every_order(tests, sizeof(tests) / sizeof(tests[0]));
}
