#include "trainer_test.h"
#include "trainer_net.h"

#include "config.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/ops.h"
#include "trainer/tensor/philox.h"
#include "trainer/model/net.h"

/*
 * Finite differences: the gradient of L = sum(r * y) with respect to x, by central differences of
 * step EPSILON, against what backward says for dy = r. Layers are piecewise linear, so a difference
 * is exact but for rounding; arrays are float, which gives about 1e-7 / EPSILON and sets the
 * tolerance.
 */
#define EPSILON   0x1p-6f
#define TOLERANCE 1e-3

typedef void (*forward_fn)(void *layer, const float *x, float *y);

static double weighted_sum(
	forward_fn f, void *layer, const float *x, const float *r, float *y, size_t ny)
{
	double sum = 0;

	f(layer, x, y);
	for (size_t i = 0; i < ny; i++)
		sum += (double)r[i] * y[i];
	return sum;
}

static void check_gradient(
	forward_fn f, void *layer, float *x, size_t nx, const float *r, size_t ny, const float *dx)
{
	auto_free float *y = xcalloc(ny, sizeof(*y));

	for (size_t i = 0; i < nx; i++) {
		float was = x[i];
		double up, down, slope;

		x[i] = was + EPSILON;
		up = weighted_sum(f, layer, x, r, y, ny);
		x[i] = was - EPSILON;
		down = weighted_sum(f, layer, x, r, y, ny);
		x[i] = was;
		slope = (up - down) / (2 * EPSILON);
		if (fabs(slope - dx[i]) > TOLERANCE * (1 + fabs(slope)))
			fail_msg("element %zu: %g by differences, %g by backward", i, slope,
				(double)dx[i]);
	}
}

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
	(void)state;
	check_conv((struct op_conv){ 2, 3, 6, 7, 4, 5, 1, 2, 6, 7 }); /* keeps height and width */
	check_conv((struct op_conv){ 2, 2, 8, 7, 3, 3, 2, 1, 4, 4 }); /* strides */
	check_conv((struct op_conv){ 1, 2, 5, 5, 3, 5, 1, 0, 1, 1 }); /* the kernel covers all */
}

struct dense {
	struct op_dense d;
	float *x, *w, *b;
};

static void dense_of_x(void *l, const float *x, float *y)
{
	struct dense *c = l;

	op_dense_forward(&c->d, x, c->w, c->b, y);
}

static void dense_of_w(void *l, const float *w, float *y)
{
	struct dense *c = l;

	op_dense_forward(&c->d, c->x, w, c->b, y);
}

static void dense_of_b(void *l, const float *b, float *y)
{
	struct dense *c = l;

	op_dense_forward(&c->d, c->x, c->w, b, y);
}

static void a_dense_layer_has_the_gradients_of_finite_differences(void **state)
{
	struct op_dense d = { 3, 7, 5 };
	struct dense c = { d, random_floats(1, 21), random_floats(2, 35), random_floats(3, 5) };
	auto_free float *r = random_floats(4, 15);
	float dx[21], dw[35], db[5];

	(void)state;
	op_dense_backward_data(&d, r, c.w, dx);
	op_dense_backward_weights(&d, c.x, r, dw, db);
	check_gradient(dense_of_x, &c, c.x, 21, r, 15, dx);
	check_gradient(dense_of_w, &c, c.w, 35, r, 15, dw);
	check_gradient(dense_of_b, &c, c.b, 5, r, 15, db);
	free(c.x);
	free(c.w);
	free(c.b);
}

/* Values that stay on their side of 0 and keep their order under steps of EPSILON, but not sorted.
 */
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

	(void)state;
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

	(void)state;
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

	(void)state;
	op_pool_forward(&d, x, &y, &winner);
	op_pool_backward(&d, &dy, &winner, dx);
	assert_true(y == 3 && dx[0] == 0 && dx[1] == 5 && dx[2] == 0 && dx[3] == 0);
}

struct loss {
	int n, classes;
	const uint16_t *labels;
};

static void loss_of(void *l, const float *x, float *y)
{
	struct loss *c = l;
	int wrong;

	/* float would round the differences away, so the loss is told as two floats */
	double loss = op_softmax_loss(c->n, c->classes, x, c->labels, NULL, &wrong);

	y[0] = (float)loss;
	y[1] = (float)(loss - y[0]);
}

static void softmax_loss_has_the_gradient_of_finite_differences(void **state)
{
	const uint16_t labels[3] = { 4, 0, 2 };
	struct loss l = { 3, 5, labels };
	auto_free float *x = random_floats(1, 15);
	float dx[15], one[2] = { 1, 1 };
	int wrong;

	(void)state;
	op_softmax_loss(3, 5, x, labels, dx, &wrong);
	check_gradient(loss_of, &l, x, 15, one, 2, dx);
}

static void softmax_loss_survives_huge_logits_and_counts_what_is_wrong(void **state)
{
	float x[6] = { 1e30f, 0, 0, 5, 6, NAN }, dx[6];
	const uint16_t labels[2] = { 0, 1 };
	int wrong;

	(void)state;
	assert_true(op_softmax_loss(1, 3, x, labels, dx, &wrong) < 1e-12);
	assert_int_equal(wrong, 0);
	assert_true(isnan(op_softmax_loss(2, 3, x, labels, dx, &wrong)));
	assert_int_equal(wrong, 1); /* a row with a NaN is wrong */
}

static void a_dropout_mask_keeps_the_mean_and_is_its_streams_alone(void **state)
{
	float a[10000], b[5000], other[10000];
	double sum = 0;

	(void)state;
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

	(void)state;
	assert_memory_equal(
		zero.word, ((uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }), 16);
	assert_memory_equal(
		pi.word, ((uint32_t[]){ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 }), 16);
}

static void sgd_follows_its_formula(void **state)
{
	float p[1] = { 2 }, v[1] = { 3 }, g[1] = { 5 };

	(void)state;
	/* v = 0.5 * 3 + (5 + 0.25 * 2) = 7; p = 2 - 0.1 * 7 */
	assert_true(op_sgd(1, p, v, g, 0.1f, 0.5f, 0.25f) == 4);
	assert_true(v[0] == 7 && fabsf(p[0] - 1.3f) < 1e-6f);
}

/* --- whole networks ---------------------------------------------------------- */

struct setup {
	struct net *net;
	struct engine *engine;
	float *params;
	uint16_t labels[64];
	uint8_t *images;
	struct batch batch;
};

static struct setup set_up(const struct backend *b, struct net *net, int batch, int threads)
{
	struct engine_config config = { .batch = batch, .threads = threads };
	struct mlr_error err = MLR_ERROR_INIT;
	struct setup s = { .net = net };
	size_t n = (size_t)batch * shape_count(&net->input);
	struct rng rng;

	for (int c = 0; c < IMAGE_CHANNELS_MAX; c++)
		config.norm.mean[c] = config.norm.scale[c] = 127.5f;

	if (b->open(net->layers, net->n, &config, &s.engine, &err) < 0)
		fail_msg("%s", err.text);
	s.params = xcalloc(net->params, sizeof(float));
	net_init_params(net, 1, s.params);
	assert_int_equal(engine_set(s.engine, ENGINE_PARAMS, s.params, NULL), 0);
	s.images = xcalloc(n, 1);
	rng_init(&rng, 11, RNG_TEST, 0);
	for (size_t i = 0; i < n; i++)
		s.images[i] = (uint8_t)rng_below(&rng, 256);
	for (int i = 0; i < batch; i++)
		s.labels[i] = (uint16_t)(i * 7 % net->classes);
	s.batch = (struct batch){ .rows = batch, .images = s.images };
	return s;
}

static void tear_down(struct setup *s)
{
	engine_close(&s->engine);
	free(s->params);
	free(s->images);
}

static struct step_result step_of(struct setup *s, const struct step *step)
{
	struct step_result got;

	s->batch.labels = s->labels;
	assert_int_equal(engine_step(s->engine, &s->batch, step, 1, &got, NULL), 0);
	return got;
}

static struct net *reference_net(void)
{
	struct net *net = NULL;

	assert_int_equal(net_reference(shape3(1, 28, 28), 10, 0.5f, &net, NULL), 0);
	return net;
}

/* Sizes that fit no vector, a stride, rests at the edges, every kind of layer in unusual places. */
static struct net *odd_net(void)
{
	const struct layer layers[] = {
		{ LAYER_RELU, "in" },
		{ LAYER_CONV, "a", .outputs = 7, .size = 3, .stride = 1, .pad = 1, .sigma = 0.4f,
			.bias = 0.1f },
		{ LAYER_MAXPOOL, "pool_a", .size = 2 },
		{ LAYER_DROPOUT, "drop_a", .rate = 0.25f },
		{ LAYER_CONV, "b", .outputs = 18, .size = 5, .stride = 2, .pad = 2, .sigma = 0.2f },
		{ LAYER_RELU, "relu_b" },
		{ LAYER_CONV, "c", .outputs = 20, .size = 3, .stride = 1, .pad = 0, .sigma = 0.2f,
			.decay = 1 },
		{ LAYER_RELU, "relu_c" },
		{ LAYER_RELU, "again" },
		{ LAYER_DENSE, "d", .outputs = 33, .sigma = 0.2f, .bias = 0.1f, .decay = 1 },
		{ LAYER_DROPOUT, "drop_d", .rate = 0.5f },
		{ LAYER_RELU, "relu_d" },
		{ LAYER_DENSE, "e", .outputs = 5, .sigma = 0.3f },
	};

	return chain_net("odd", shape3(3, 19, 21), layers, ARRAY_LEN(layers));
}

/* Convolutions that winograd.h can do, on images that its tiles of 4x4 do not fill, in every place:
 * behind and before others like them, with and without a ReLU, pooled and not. */
static struct net *kernels_of_5_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "a", .outputs = 16, .size = 5, .stride = 1, .pad = 2, .sigma = 0.2f,
			.bias = 0.1f },
		{ LAYER_CONV, "b", .outputs = 48, .size = 5, .stride = 1, .pad = 2, .sigma = 0.1f,
			.bias = 0.2f, .decay = 1 },
		{ LAYER_DROPOUT, "drop", .rate = 0.5f },
		{ LAYER_RELU, "relu_drop" },
		{ LAYER_MAXPOOL, "pool_drop", .size = 2 },
		{ LAYER_CONV, "c", .outputs = 32, .size = 5, .stride = 1, .pad = 2, .sigma = 0.05f,
			.bias = 0.1f },
		{ LAYER_RELU, "relu_c" },
		{ LAYER_CONV, "d", .outputs = 16, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.05f },
		{ LAYER_RELU, "relu_d" },
		{ LAYER_MAXPOOL, "pool", .size = 3 },
		{ LAYER_DENSE, "e", .outputs = 3, .sigma = 0.1f },
	};

	return chain_net("kernels-of-5", shape3(2, 13, 10), layers, ARRAY_LEN(layers));
}

/* Layers of the reference network at sizes that finite differences can afford. */
static struct net *small_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "conv1", .outputs = 3, .size = 3, .stride = 1, .pad = 1,
			.sigma = 0.4f, .bias = 0.1f },
		{ LAYER_RELU, "relu1" },
		{ LAYER_MAXPOOL, "pool1", .size = 2 },
		{ LAYER_CONV, "conv2", .outputs = 4, .size = 3, .stride = 1, .pad = 1,
			.sigma = 0.4f, .bias = 0.1f },
		{ LAYER_RELU, "relu2" },
		{ LAYER_DENSE, "fc1", .outputs = 6, .sigma = 0.3f, .bias = 0.1f, .decay = 1 },
		{ LAYER_DROPOUT, "dropout", .rate = 0.5f },
		{ LAYER_DENSE, "fc2", .outputs = 4, .sigma = 0.5f },
	};

	return chain_net("small", shape3(2, 4, 4), layers, ARRAY_LEN(layers));
}

static double loss_at(struct setup *s, const float *params)
{
	const struct step step = { .lr = 0, .momentum = 0, .l2 = 0, .seed = 3, .number = 5 };
	assert_int_equal(engine_set(s->engine, ENGINE_PARAMS, params, NULL), 0);
	return step_of(s, &step).cross_entropy;
}

/*
 * Through a whole network a step may cross a kink (ReLU, maximum) or bend (softmax), so the step is
 * smaller and the tolerance is on the whole gradient: 1 % of its length. The kinks that random
 * numbers place within the step are few.
 */
static void a_step_of_reference_has_the_gradient_of_finite_differences(void **state)
{
	auto_call(net_free) struct net *net = small_net();
	struct setup s = set_up(&backend_reference, net, 3, 1);
	auto_free float *grad = xcalloc(net->params, 4), *slope = xcalloc(net->params, 4);
	const float step = 0x1p-10f;

	(void)state;
	loss_at(&s, s.params);
	assert_int_equal(engine_get(s.engine, ENGINE_GRADS, grad, NULL), 0);
	for (size_t i = 0; i < net->params; i++) {
		float was = s.params[i];
		double up, down;

		s.params[i] = was + step;
		up = loss_at(&s, s.params);
		s.params[i] = was - step;
		down = loss_at(&s, s.params);
		s.params[i] = was;
		slope[i] = (float)((up - down) / (2 * step));
	}
	assert_true(distance(slope, grad, net->params) < 0.01);
	tear_down(&s);
}

#if HAVE_ONEDNN

/* What `onednn` may differ by, as || a - b || / || b ||: rounding of sums in another order. */
#define CLOSE 1e-4

static void compare_layers(const struct net *net, const float *a, const float *b, const char *what)
{
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		size_t n = l->weights + l->biases;
		double d = n ? distance(a + l->weight_at, b + l->weight_at, n) : 0;

		if (!(d < CLOSE))
			fail_msg("%s of layer %s differ by %g", what, l->name, d);
	}
}

static void compare_steps(struct net *net, int batch, int threads)
{
	struct setup r = set_up(&backend_reference, net, batch, 1),
		     o = set_up(&backend_onednn, net, batch, threads);
	auto_free float *a = xcalloc(net->params, 4), *b = xcalloc(net->params, 4);
	size_t logits = (size_t)(batch * net->classes);

	assert_int_equal(engine_predict(o.engine, &o.batch, a, NULL), 0);
	assert_int_equal(engine_predict(r.engine, &r.batch, b, NULL), 0);
	assert_true(distance(a, b, logits) < CLOSE);
	for (uint64_t i = 0; i < 3; i++) {
		const struct step step = {
			.lr = 0.02f, .momentum = 0.9f, .l2 = 0.01f, .seed = 1, .number = i
		};
		struct step_result want = step_of(&r, &step), got = step_of(&o, &step);

		assert_true(fabs(got.cross_entropy / want.cross_entropy - 1) < CLOSE);
		assert_true(fabs(got.penalty / want.penalty - 1) < CLOSE);
		assert_true(fabs(got.norm2 / want.norm2 - 1) < CLOSE);
		assert_int_equal(got.wrong, want.wrong);
		for (enum engine_block k = ENGINE_PARAMS; k <= ENGINE_GRADS; k++) {
			static const char *const names[] = { "parameters", "velocities",
				"gradients" };

			assert_int_equal(engine_get(o.engine, k, a, NULL), 0);
			assert_int_equal(engine_get(r.engine, k, b, NULL), 0);
			compare_layers(net, a, b, names[k]);
		}
	}
	tear_down(&r);
	tear_down(&o);
}

static void onednn_computes_the_steps_of_reference_on_the_reference_network(void **state)
{
	auto_call(net_free) struct net *net = reference_net();

	(void)state;
	compare_steps(net, 5, 2);
}

static void onednn_computes_the_steps_of_reference_on_odd_sizes(void **state)
{
	auto_call(net_free) struct net *net = odd_net();

	(void)state;
	compare_steps(net, 5, 1);
	compare_steps(net, 6, 3);
}

static void onednn_computes_the_steps_of_reference_where_kernels_are_5x5(void **state)
{
	auto_call(net_free) struct net *net = kernels_of_5_net();

	(void)state;
	compare_steps(net, 3, 2);
}

static void onednn_computes_the_steps_of_reference_on_a_small_network(void **state)
{
	auto_call(net_free) struct net *net = small_net();

	(void)state;
	compare_steps(net, 1, 2);
}

static void onednn_repeats_a_step_bit_by_bit(void **state)
{
	auto_call(net_free) struct net *net = reference_net();
	auto_free float *a = xcalloc(net->params, 4), *b = xcalloc(net->params, 4);

	(void)state;
	for (int run = 0; run < 2; run++) {
		struct setup s = set_up(&backend_onednn, net, 16, 2);
		const struct step step = { .lr = 0.01f, .momentum = 0.9f, .l2 = 5e-4f };
		for (int i = 0; i < 4; i++)
			step_of(&s, &step);
		assert_int_equal(engine_get(s.engine, ENGINE_PARAMS, run ? b : a, NULL), 0);
		tear_down(&s);
	}
	assert_memory_equal(a, b, net->params * sizeof(float));
}

static void what_is_set_in_onednns_layout_comes_back(void **state)
{
	auto_call(net_free) struct net *net = odd_net();
	struct setup s = set_up(&backend_onednn, net, 2, 1);
	auto_free float *a = random_floats(1, net->params), *b = xcalloc(net->params, 4);

	(void)state;
	assert_int_equal(engine_set(s.engine, ENGINE_VELOCITY, a, NULL), 0);
	assert_int_equal(engine_get(s.engine, ENGINE_VELOCITY, b, NULL), 0);
	assert_memory_equal(a, b, net->params * sizeof(float));
	assert_int_equal(engine_get(s.engine, ENGINE_PARAMS, b, NULL), 0);
	assert_memory_equal(s.params, b, net->params * sizeof(float));
	tear_down(&s);
}

#endif

static void backends_are_found_by_name(void **state)
{
	(void)state;
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
		cmocka_unit_test(softmax_loss_survives_huge_logits_and_counts_what_is_wrong),
		cmocka_unit_test(a_dropout_mask_keeps_the_mean_and_is_its_streams_alone),
		cmocka_unit_test(philox_gives_its_authors_numbers),
		cmocka_unit_test(sgd_follows_its_formula),
		cmocka_unit_test(a_step_of_reference_has_the_gradient_of_finite_differences),
#if HAVE_ONEDNN
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_a_small_network),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_odd_sizes),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_where_kernels_are_5x5),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_the_reference_network),
		cmocka_unit_test(onednn_repeats_a_step_bit_by_bit),
		cmocka_unit_test(what_is_set_in_onednns_layout_comes_back),
#endif
		cmocka_unit_test(backends_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
