/*
 * The GPU's kernels of images, loss and update, run on the CPU (cuda_on_cpu/), against plain loops:
 * every dtype, odd sizes, all orders of threads.
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

/* --- the update --- */

/* Three parts that do not lie in their order, and two steps after one another. */
static void check_update(enum kernel_rule rule)
{
	static const optimiser_update plain[] = { sgd_plain, adam_plain, adam_decoupled_plain };
	enum { N = 3004 };
	struct rng r;
	float *p, *v, *g, *want_p, *want_v;
	float *square = xcalloc(N, sizeof(float)), *want_square = xcalloc(N, sizeof(float));
	uint16_t copy[N] __attribute__((aligned(16)));
	uint32_t ticket = 0;
	kernel_now now = 0;
	double partial[2 * KERNEL_UPDATE_BLOCKS];
	struct kernel_step steps[2] = { { .lr = 0.1F, .momentum = 0.9F, .l2 = 0.01F },
		{ .lr = 0.05F, .momentum = 0.9F, .l2 = 0.02F } };
	struct kernel_result results[2] = { { .wrong = 5 }, { .wrong = 6 } };
	static const struct kernel_part parts[3] = { { 1600, N - 1600, 0 }, { 0, 1300, 1 },
		{ 1300, 300, 0.5F } };

	for (int i = 0; i < 2; i++) {
		struct adam_factors f = adam_factors(steps[i].lr, steps[i].momentum, (uint64_t)i);

		steps[i].beta2 = ADAM_BETA2;
		steps[i].rate = f.rate;
		steps[i].epsilon = f.epsilon;
	}
	rng_init(&r, 5, RNG_TEST, 0);
	p = numbers(&r, DTYPE_F32, N);
	v = numbers(&r, DTYPE_F32, N);
	g = numbers(&r, DTYPE_F32, N);
	want_p = stored(DTYPE_F32, p, N);
	want_v = stored(DTYPE_F32, v, N);
	for (int i = 0; i < N; i++) /* a root near 0 would make much of rounding */
		square[i] = want_square[i] = 0.1F + (float)(i % 7);
	for (int i = 0; i < 2; i++) {
		struct kernel_update d = { rule, parts, 3, N, g, p, v, rule ? square : NULL, copy,
			steps, results, &now, partial, &ticket };
		struct optimiser_step want = { .param = want_p,
			.state = { want_v, want_square },
			.grad = g,
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
	free(p);
	free(v);
	free(g);
	free(want_p);
	free(want_v);
	free(square);
	free(want_square);
}

static void one_launch_updates_every_part_and_counts_the_step(void **state)
{
	for (enum kernel_rule rule = KERNEL_SGD; rule <= KERNEL_ADAMW; rule++)
		check_update(rule);
}

/* --- loss --- */

enum { LOSS_ROWS = 37 };

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(images_are_gathered_and_altered_as_on_the_cpu),
		cmocka_unit_test(staged_images_are_taken_in_order),
		cmocka_unit_test(one_launch_updates_every_part_and_counts_the_step),
		cmocka_unit_test(the_loss_its_gradient_and_the_wrong_are_the_loops),
	};

	return run_in_every_order(tests, sizeof(tests) / sizeof(tests[0]));
}
