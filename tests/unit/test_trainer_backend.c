/* The operations of the backend `reference`, and a step of a network that is a chain. */
#include "trainer_engine.h"

#include "backend/ops.h"
#include "optimiser/optimiser.h"
#include "tensor/wide.h"
#include "tensor/philox.h"

struct conv {
	struct op_conv d;
	float *x, *w, *b;
};

static void conv_of_x(void *l, const float *x, float *y)
{
	struct conv *c = l;

	op_conv_forward(&c->d, x, c->w, c->b, y);
}

static void conv_of_w(void *l, const float *w, float *y)
{
	struct conv *c = l;

	op_conv_forward(&c->d, c->x, w, c->b, y);
}

static void conv_of_b(void *l, const float *b, float *y)
{
	struct conv *c = l;

	op_conv_forward(&c->d, c->x, c->w, b, y);
}

static void check_conv(struct op_conv d)
{
	size_t nx = (size_t)(d.n * d.c * d.h * d.w), nw = (size_t)(d.k * d.c * d.r * d.r);
	size_t ny = (size_t)(d.n * d.k * d.p * d.q), nb = (size_t)d.k;
	struct conv c = { d, random_floats(1, nx), random_floats(2, nw), random_floats(3, nb) };
	auto_free float *r = random_floats(4, ny), *dx = xcalloc(nx, 4), *dw = xcalloc(nw, 4),
			*db = xcalloc(nb, 4);

	op_conv_backward_data(&d, r, c.w, dx);
	op_conv_backward_weights(&d, c.x, r, dw, db);
	check_gradient(conv_of_x, &c, c.x, nx, r, ny, dx);
	check_gradient(conv_of_w, &c, c.w, nw, r, ny, dw);
	check_gradient(conv_of_b, &c, c.b, nb, r, ny, db);
	free(c.x);
	free(c.w);
	free(c.b);
}

static void convolution_has_the_gradients_of_finite_differences(void **state)
{
	check_conv((struct op_conv){ 2, 3, 6, 7, 4, 5, 1, 2, 6, 7 }); /* keeps height and width */
	check_conv((struct op_conv){ 2, 2, 8, 7, 3, 3, 2, 1, 4, 4 }); /* strides */
	check_conv((struct op_conv){ 1, 2, 5, 5, 3, 5, 1, 0, 1, 1 }); /* the kernel covers all */
}

struct dense {
	struct op_conv d;
	float *x, *w, *b;
};

static void dense_of_x(void *l, const float *x, float *y)
{
	struct dense *c = l;

	op_conv_forward(&c->d, x, c->w, c->b, y);
}

static void dense_of_w(void *l, const float *w, float *y)
{
	struct dense *c = l;

	op_conv_forward(&c->d, c->x, w, c->b, y);
}

static void dense_of_b(void *l, const float *b, float *y)
{
	struct dense *c = l;

	op_conv_forward(&c->d, c->x, c->w, b, y);
}

static void a_dense_layer_has_the_gradients_of_finite_differences(void **state)
{
	struct op_conv d = op_dense(3, 7, 5);
	struct dense c = { d, random_floats(1, 21), random_floats(2, 35), random_floats(3, 5) };
	auto_free float *r = random_floats(4, 15);
	float dx[21], dw[35], db[5];

	op_conv_backward_data(&d, r, c.w, dx);
	op_conv_backward_weights(&d, c.x, r, dw, db);
	check_gradient(dense_of_x, &c, c.x, 21, r, 15, dx);
	check_gradient(dense_of_w, &c, c.w, 35, r, 15, dw);
	check_gradient(dense_of_b, &c, c.b, 5, r, 15, db);
	free(c.x);
	free(c.w);
	free(c.b);
}

/* Values that stay on their side of 0 and keep their order under steps of EPSILON, but not
 * sorted. */
static float *spread_floats(size_t n)
{
	float *v = xcalloc(n, sizeof(*v));
	uint32_t order[1024];
	struct rng rng;

	rng_init(&rng, 5, RNG_TEST, 0);
	rng_shuffle(&rng, order, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		v[i] = ((float)order[i] - (float)n / 2 + 0.5f) * 4 * EPSILON;
	return v;
}

static void relu_of(void *l, const float *x, float *y)
{
	op_relu_forward(*(size_t *)l, x, y);
}

static void relu_has_the_gradient_of_finite_differences(void **state)
{
	size_t n = 40;
	auto_free float *x = spread_floats(n), *r = random_floats(1, n);
	float y[40], dx[40];

	op_relu_forward(n, x, y);
	op_relu_backward(n, y, r, dx);
	check_gradient(relu_of, &n, x, n, r, n, dx);
}

static void pool_of(void *l, const float *x, float *y)
{
	uint8_t winner[512];

	op_pool_forward(l, x, y, winner);
}

static void max_pooling_has_the_gradient_of_finite_differences(void **state)
{
	/* with rests at the edges, and with windows that overlap */
	struct op_pool all[] = { { 2, 3, 6, 8, 2, 2, 3, 4 }, { 2, 2, 7, 8, 3, 3, 2, 2 },
		{ 1, 1, 4, 4, 1, 1, 4, 4 }, { 2, 2, 7, 8, 3, 2, 3, 3 } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct op_pool *d = &all[i];
		size_t nx = (size_t)(d->n * d->c * d->h * d->w);
		size_t ny = (size_t)(d->n * d->c * d->p * d->q);
		auto_free float *x = spread_floats(nx), *r = random_floats(1, ny),
				*y = xcalloc(ny, 4);
		auto_free float *dx = xcalloc(nx, 4);
		auto_free uint8_t *winner = xcalloc(ny, 1);

		op_pool_forward(d, x, y, winner);
		op_pool_backward(d, r, winner, dx);
		check_gradient(pool_of, d, x, nx, r, ny, dx);
	}
}

static void of_equal_values_in_a_window_the_first_gets_the_gradient(void **state)
{
	struct op_pool d = { 1, 1, 2, 2, 2, 2, 1, 1 };
	float x[4] = { 1, 3, 3, 3 }, y, dy = 5, dx[4];
	uint8_t winner;

	op_pool_forward(&d, x, &y, &winner);
	op_pool_backward(&d, &dy, &winner, dx);
	assert_true(y == 3 && dx[0] == 0 && dx[1] == 5 && dx[2] == 0 && dx[3] == 0);
}

struct loss {
	int n, classes;
	const uint16_t *labels;
	float share;
};

static void loss_of(void *l, const float *x, float *y)
{
	struct loss *c = l;
	int wrong;

	/* float would round the differences away, so the loss is told as two floats */
	float dx[15] = { 0 };
	double loss = op_softmax_loss(c->n, c->classes, x, c->labels, NULL, &wrong) +
		op_smooth_loss(c->n, c->classes, c->share, x, c->labels, dx);

	y[0] = (float)loss;
	y[1] = (float)(loss - y[0]);
}

static void softmax_loss_has_the_gradient_of_finite_differences(void **state)
{
	const uint16_t labels[3] = { 4, 0, 2 };
	auto_free float *x = random_floats(1, 15);
	float dx[15], one[2] = { 1, 1 };
	int wrong;

	for (float share = 0; share <= 1; share += 0.25f) {
		struct loss l = { 3, 5, labels, share };

		op_softmax_loss(3, 5, x, labels, dx, &wrong);
		op_smooth_loss(3, 5, share, x, labels, dx);
		check_gradient(loss_of, &l, x, 15, one, 2, dx);
	}
}

/* What PyTorch 1.13 says: CrossEntropyLoss(label_smoothing=S)(x, labels), and its x.grad. */
static void smoothed_labels_give_pytorchs_losses(void **state)
{
	const float x[6] = { 1, 2, 3, -1, 0.5f, 0.25f };
	const uint16_t labels[2] = { 2, 0 };
	static const struct {
		float share;
		double loss;
		float dx[6];
	} want[] = {
		{ 0, 1.3008591,
			{ 0.04501529f, 0.12236425f, -0.1673795f, -0.44427127f, 0.24975887f,
				0.1945124f } },
		{ 0.1f, 1.3050257,
			{ 0.028348623f, 0.10569758f, -0.13404617f, -0.41093794f, 0.2330922f,
				0.17784573f } },
		{ 0.5f, 1.3216925,
			{ -0.038318045f, 0.03903091f, -0.00071284175f, -0.27760461f, 0.16642553f,
				0.11117906f } },
		{ 1, 1.3425258,
			{ -0.12165138f, -0.044302426f, 0.16595383f, -0.11093794f, 0.083092198f,
				0.027845725f } },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		float dx[6];
		int wrong;
		double loss = op_softmax_loss(2, 3, x, labels, dx, &wrong);

		loss += op_smooth_loss(2, 3, want[i].share, x, labels, dx);
		assert_true(fabs(loss - want[i].loss) < 2e-6);
		for (int k = 0; k < 6; k++)
			assert_true(fabsf(dx[k] - want[i].dx[k]) < 1e-6f);
	}
}

static void softmax_loss_survives_huge_logits_and_counts_what_is_wrong(void **state)
{
	float x[6] = { 1e30f, 0, 0, 5, 6, NAN }, dx[6];
	const uint16_t labels[2] = { 0, 1 };
	int wrong;

	assert_true(op_softmax_loss(1, 3, x, labels, dx, &wrong) < 1e-12);
	assert_int_equal(wrong, 0);
	assert_true(isnan(op_softmax_loss(2, 3, x, labels, dx, &wrong)));
	assert_int_equal(wrong, 1); /* a row with a NaN is wrong */
}

static void a_dropout_mask_keeps_the_mean_and_is_its_streams_alone(void **state)
{
	float a[10000], b[5000], other[10000];
	double sum = 0;

	rng_dropout(1, 7, 2, 0.25f, 0, a, 10000);
	rng_dropout(1, 7, 2, 0.25f, 5000, b, 5000);
	assert_memory_equal(a + 5000, b, sizeof(b));
	rng_dropout(1, 8, 2, 0.25f, 0, other, 10000);
	assert_memory_not_equal(a, other, sizeof(a));
	rng_dropout(1, 7, 3, 0.25f, 0, other, 10000);
	assert_memory_not_equal(a, other, sizeof(a));
	for (int i = 0; i < 10000; i++) {
		assert_true(a[i] == 0 || fabsf(a[i] - 4.0f / 3) < 1e-6f);
		sum += a[i];
	}
	assert_true(fabs(sum / 10000 - 1) < 0.03);
}

/* Salmon et al.'s known answers (Random123, kat_vectors, philox4x32-10). */
static void philox_gives_its_authors_numbers(void **state)
{
	struct philox zero = philox((struct philox){ { 0 } }, 0, 0);
	struct philox pi =
		philox((struct philox){ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 } },
			0xa4093822, 0x299f31d0);

	assert_memory_equal(
		zero.word, ((uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }), 16);
	assert_memory_equal(
		pi.word, ((uint32_t[]){ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 }), 16);
}

static void sgd_follows_its_formula(void **state)
{
	float p[1] = { 2 }, v[1] = { 3 }, g[1] = { 5 };
	struct optimiser_step s = {
		.param = p, .state = { v }, .grad = g, .lr = 0.1f, .momentum = 0.5f
	};

	/* v = 0.5 * 3 + (5 + 0.25 * 2) = 7; p = 2 - 0.1 * 7 */
	assert_true(optimisers[OPTIMISER_SGD].plain(&s, 0, 1, 0.25f) == 4);
	assert_true(v[0] == 7 && fabsf(p[0] - 1.3f) < 1e-6f);
	p[0] = 2;
	v[0] = 3;
	assert_true(optimisers[OPTIMISER_SGD].wide(&s, 0, 1, 0.25f) == 4);
	assert_true(v[0] == 7 && fabsf(p[0] - 1.3f) < 1e-6f);
}

/* Three steps of Kingma and Ba's algorithm 1, or of Loshchilov and Hutter's 2, in double
 * precision. */
static void compare_adam(int which)
{
	enum { N = 3 * WIDE_LANES + 5 };
	const float lr = 0.01f, beta1 = 0.8f, l2 = 0.25f;
	const double penalty = which == OPTIMISER_ADAM ? l2 : 0, decay = l2 - penalty;

	for (int wide = 0; wide < 2; wide++) {
		auto_free float *p = random_floats(1, N), *g = random_floats(2, N);
		float m[N] = { 0 }, v[N] = { 0 };
		double want[N], want_m[N] = { 0 }, want_v[N] = { 0 };
		struct optimiser_part part = { 0, N, l2 };
		struct optimiser_step s = { .parts = &part,
			.n = 1,
			.param = p,
			.state = { m, v },
			.grad = g,
			.lr = lr,
			.momentum = beta1 };

		for (int i = 0; i < N; i++)
			want[i] = p[i];
		for (; s.number < 3; s.number++) {
			double norm2 = 0, got, got_penalty;

			for (int i = 0; i < N; i++) {
				double t = (double)s.number + 1, d = g[i] + penalty * want[i];

				norm2 += want[i] * want[i];
				want_m[i] = beta1 * want_m[i] + (1 - beta1) * d;
				want_v[i] = 0.999 * want_v[i] + 0.001 * d * d;
				want[i] *= 1 - lr * decay;
				want[i] -= lr * (want_m[i] / (1 - pow(beta1, t))) /
					(sqrt(want_v[i] / (1 - pow(0.999, t))) + 1e-8);
			}
			optimiser_run(&optimisers[which],
				wide ? optimisers[which].wide : optimisers[which].plain, &s, 0, N,
				&got_penalty, &got);
			assert_true(fabs(got / norm2 - 1) < 1e-5);
			assert_true(fabs(got_penalty - penalty * norm2 / 2) < 1e-5 * norm2);
		}
		for (int i = 0; i < N; i++)
			if (fabs(p[i] - want[i]) > 1e-5)
				fail_msg("%s, %d: %g instead of %g", wide ? "wide" : "plain", i,
					(double)p[i], want[i]);
	}
}

static void adam_follows_its_formula(void **state)
{
	compare_adam(OPTIMISER_ADAM);
}

static void adamw_follows_its_formula(void **state)
{
	compare_adam(OPTIMISER_ADAMW);
}

/* --- whole networks ---------------------------------------------------------- */

static void a_step_of_reference_has_the_gradient_of_finite_differences(void **state)
{
	auto_call(net_free) struct net *net = small_net();
	auto_free float *grad = xcalloc(net->params, 4), *slope = xcalloc(net->params, 4);
	struct engine_config config = config_of(3, 1, NULL);

	for (config.smoothing = 0; config.smoothing < 0.5f; config.smoothing += 0.3f) {
		struct setup s;

		set_up(&s, &backend_reference, net, &config);
		loss_gradients(&s, grad, slope);
		assert_true(distance(slope, grad, net->params) < 0.01);
		tear_down(&s);
	}
}

static void backends_are_found_by_name(void **state)
{
	assert_ptr_equal(backend_find("reference"), &backend_reference);
	assert_string_equal(backend_find("cuda")->name, "cuda");
	assert_null(backend_find("abacus"));
	assert_non_null(backend_find("auto"));
	assert_non_null(strstr(backend_names(), "reference"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convolution_has_the_gradients_of_finite_differences),
		cmocka_unit_test(a_dense_layer_has_the_gradients_of_finite_differences),
		cmocka_unit_test(relu_has_the_gradient_of_finite_differences),
		cmocka_unit_test(max_pooling_has_the_gradient_of_finite_differences),
		cmocka_unit_test(of_equal_values_in_a_window_the_first_gets_the_gradient),
		cmocka_unit_test(softmax_loss_has_the_gradient_of_finite_differences),
		cmocka_unit_test(smoothed_labels_give_pytorchs_losses),
		cmocka_unit_test(softmax_loss_survives_huge_logits_and_counts_what_is_wrong),
		cmocka_unit_test(a_dropout_mask_keeps_the_mean_and_is_its_streams_alone),
		cmocka_unit_test(philox_gives_its_authors_numbers),
		cmocka_unit_test(sgd_follows_its_formula),
		cmocka_unit_test(adam_follows_its_formula),
		cmocka_unit_test(adamw_follows_its_formula),
		cmocka_unit_test(a_step_of_reference_has_the_gradient_of_finite_differences),
		cmocka_unit_test(backends_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
