/* The backend `reference` on networks that are no chains, and on many ranks. */
#include "trainer_net.h"

#include "trainer/backend/ops.h"

#include <errno.h>

/* --- layers by finite differences -------------------------------------------------- */

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

/* As in test_trainer_backend.c: dx against central differences of sum(r * y). */
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

static void avgpool_of(void *l, const float *x, float *y)
{
	op_avgpool_forward(l, x, y);
}

static void average_pooling_has_the_gradient_of_finite_differences(void **state)
{
	struct op_pool all[] = { { 2, 3, 6, 8, 2, 2, 3, 4 }, { 2, 2, 7, 8, 3, 2, 3, 3 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct op_pool *d = &all[i];
		size_t nx = (size_t)(d->n * d->c * d->h * d->w);
		size_t ny = (size_t)(d->n * d->c * d->p * d->q);
		auto_free float *x = random_floats(1, nx), *r = random_floats(2, ny);
		auto_free float *dx = random_floats(3, nx);

		op_avgpool_backward(d, r, dx);
		check_gradient(avgpool_of, d, x, nx, r, ny, dx);
	}
}

static void globalpool_of(void *l, const float *x, float *y)
{
	(void)l;
	op_globalpool_forward(6, 20, x, y);
}

static void global_pooling_has_the_gradient_of_finite_differences(void **state)
{
	auto_free float *x = random_floats(1, 120), *r = random_floats(2, 6);
	float dx[120];

	(void)state;
	op_globalpool_backward(6, 20, r, dx);
	check_gradient(globalpool_of, NULL, x, 120, r, 6, dx);
}

struct norm {
	struct op_norm d;
	float *x, *gamma, *beta;
};

static void norm_forward(const struct norm *l, const float *x, const float *gamma,
	const float *beta, float *mean, float *var, float *y)
{
	double moments[2 * 8];

	op_norm_sums(&l->d, x, moments);
	op_norm_statistics(l->d.c, l->d.n * l->d.pixels, moments, mean, var);
	op_norm_forward(&l->d, x, mean, var, gamma, beta, y);
}

static void norm_of_x(void *l, const float *x, float *y)
{
	const struct norm *c = l;
	float mean[8], var[8];

	norm_forward(c, x, c->gamma, c->beta, mean, var, y);
}

static void norm_of_gamma(void *l, const float *gamma, float *y)
{
	const struct norm *c = l;
	float mean[8], var[8];

	norm_forward(c, c->x, gamma, c->beta, mean, var, y);
}

static void norm_of_beta(void *l, const float *beta, float *y)
{
	const struct norm *c = l;
	float mean[8], var[8];

	norm_forward(c, c->x, c->gamma, beta, mean, var, y);
}

static void check_norm(struct op_norm d)
{
	size_t n = (size_t)(d.n * d.c * d.pixels), c = (size_t)d.c;
	auto_free float *x = random_floats(1, n), *gamma = random_floats(2, c),
			*beta = random_floats(3, c), *r = random_floats(4, n);
	auto_free float *y = xcalloc(n, 4), *dx = xcalloc(n, 4);
	struct norm l = { d, x, gamma, beta };
	float mean[8], var[8], dgamma[8], dbeta[8];
	double sums[16];

	for (size_t i = 0; i < n;
		i++) /* differences are exact for what bends little: a large spread */
		x[i] *= 4;
	norm_forward(&l, x, gamma, beta, mean, var, y);
	op_norm_grads(&d, x, mean, var, r, sums);
	op_norm_backward(&d, d.n * d.pixels, x, mean, var, gamma, sums, r, dx);
	for (size_t k = 0; k < c; k++) {
		dbeta[k] = (float)sums[k];
		dgamma[k] = (float)sums[c + k];
	}
	check_gradient(norm_of_x, &l, x, n, r, n, dx);
	check_gradient(norm_of_gamma, &l, gamma, c, r, n, dgamma);
	check_gradient(norm_of_beta, &l, beta, c, r, n, dbeta);
}

static void batch_norm_has_the_gradients_of_finite_differences(void **state)
{
	(void)state;
	check_norm((struct op_norm){ 3, 4, 6, 1e-5f }); /* an image's channels */
	check_norm((struct op_norm){ 9, 5, 1, 1e-3f }); /* a row's units */
}

static void batch_norm_makes_mean_0_and_variance_1_and_tracks_the_unbiased_one(void **state)
{
	struct op_norm d = { 2, 1, 2, 1e-12f };
	const float x[4] = { 1, 3, 5, 7 }, gamma = 2, beta = 10;
	float mean, var, y[4], running_mean = 1, running_var = 1;
	double moments[2];

	(void)state;
	op_norm_sums(&d, x, moments);
	op_norm_statistics(1, 4, moments, &mean, &var);
	assert_true(mean == 4 && var == 5);
	op_norm_forward(&d, x, &mean, &var, &gamma, &beta, y);
	assert_true(
		fabs(y[0] - (10 - 6 / sqrt(5))) < 1e-6 && fabs(y[3] - (10 + 6 / sqrt(5))) < 1e-6);
	op_norm_track(1, 4, 0.25f, &mean, &var, &running_mean, &running_var);
	assert_true(fabsf(running_mean - 1.75f) < 1e-6f);
	assert_true(fabsf(running_var - (0.75f + 0.25f * 20 / 3)) < 1e-6f);
}

/* --- whole networks ------------------------------------------------------------------ */

struct setup {
	struct net *net;
	struct engine *engine;
	float *params;
	uint16_t labels[64];
	uint8_t *images;
	struct batch batch;
};

static void set_up(struct setup *s, struct net *net, int batch, const struct exchange *exchange)
{
	struct engine_config config = { .batch = batch, .threads = 1, .exchange = exchange };
	struct mlr_error err = MLR_ERROR_INIT;
	size_t n = (size_t)batch * shape_count(&net->input);
	auto_free float *noise = random_floats(17, net->params);
	struct rng rng;

	*s = (struct setup){ .net = net };
	for (int c = 0; c < IMAGE_CHANNELS_MAX; c++)
		config.norm.mean[c] = config.norm.scale[c] = 127.5f;
	if (backend_reference.open(net->layers, net->n, &config, &s->engine, &err) < 0)
		fail_msg("%s", err.text);
	s->params = xcalloc(net->params, sizeof(float));
	net_init_params(net, 1, s->params);
	for (size_t i = 0; i < net->params; i++) /* gamma and beta too shall be like no other */
		s->params[i] += 0.1f * noise[i];
	assert_int_equal(engine_set(s->engine, ENGINE_PARAMS, s->params, NULL), 0);
	s->images = xcalloc(n, 1);
	rng_init(&rng, 11, RNG_TEST, 0);
	for (size_t i = 0; i < n; i++)
		s->images[i] = (uint8_t)rng_below(&rng, 256);
	for (int i = 0; i < batch; i++)
		s->labels[i] = (uint16_t)(i * 7 % net->classes);
	s->batch = (struct batch){ .rows = batch, .images = s->images, .labels = s->labels };
}

static void tear_down(struct setup *s)
{
	engine_close(&s->engine);
	free(s->params);
	free(s->images);
}

static double loss_at(struct setup *s, const float *params)
{
	const struct step step = { .seed = 3, .number = 5 };
	struct step_result got;

	assert_int_equal(engine_set(s->engine, ENGINE_PARAMS, params, NULL), 0);
	assert_int_equal(engine_step(s->engine, &s->batch, &step, 1, &got, NULL), 0);
	return got.cross_entropy;
}

/* A residual block with a projection, batch norm on images and rows, every pool, an output that
 * three layers read, sums of the images with themselves. */
static struct net *residual_net(void)
{
	enum {
		TWICE,
		CONV1,
		BN1,
		RELU1,
		CONV2,
		BN2,
		SHORT,
		SUM,
		RELU2,
		AVG,
		MAX,
		SUM2,
		GLOBAL,
		FC1,
		BN3,
		DROP,
		FC2
	};
	const struct layer layers[] = {
		[TWICE] = { LAYER_ADD, "twice", LAYER_INPUT, LAYER_INPUT },
		[CONV1] = { LAYER_CONV, "conv1", TWICE, .outputs = 3, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN1] = { LAYER_BATCHNORM, "bn1", CONV1, .epsilon = 1e-3f, .momentum = 0.1f },
		[RELU1] = { LAYER_RELU, "relu1", BN1 },
		[CONV2] = { LAYER_CONV, "conv2", RELU1, .outputs = 4, .size = 3, .stride = 2,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN2] = { LAYER_BATCHNORM, "bn2", CONV2, .epsilon = 1e-3f, .momentum = 0.1f },
		[SHORT] = { LAYER_CONV, "short", RELU1, .outputs = 4, .size = 1, .stride = 2,
			.sigma = 0.4f, .bias = 0.1f },
		[SUM] = { LAYER_ADD, "sum", BN2, SHORT },
		[RELU2] = { LAYER_RELU, "relu2", SUM },
		[AVG] = { LAYER_AVGPOOL, "avg", RELU2, .size = 2, .stride = 1 },
		[MAX] = { LAYER_MAXPOOL, "max", RELU2, .size = 2, .stride = 1 },
		[SUM2] = { LAYER_ADD, "sum2", AVG, MAX },
		[GLOBAL] = { LAYER_GLOBALPOOL, "global", SUM2 },
		[FC1] = { LAYER_DENSE, "fc1", GLOBAL, .outputs = 7, .sigma = 0.5f, .decay = 0.5f },
		[BN3] = { LAYER_BATCHNORM, "bn3", FC1, .epsilon = 1e-3f, .momentum = 0.2f },
		[DROP] = { LAYER_DROPOUT, "drop", BN3, .rate = 0.25f },
		[FC2] = { LAYER_DENSE, "fc2", DROP, .outputs = 4, .sigma = 0.5f },
	};
	struct mlr_error err = MLR_ERROR_INIT;
	struct net *net = NULL;

	if (net_new("residual", shape3(2, 5, 6), layers, ARRAY_LEN(layers), &net, &err) < 0)
		fail_msg("%s", err.text);
	return net;
}

static void a_residual_network_has_the_gradient_of_finite_differences(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	auto_free float *grad = xcalloc(net->params, 4), *slope = xcalloc(net->params, 4);
	const float step = 0x1p-10f;
	struct setup s;

	(void)state;
	set_up(&s, net, 5, NULL);
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
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];
		double d =
			distance(slope + l->weight_at, grad + l->weight_at, l->weights + l->biases);

		/* a bias before batch norm changes nothing but for rounding: its gradient is 0 */
		if (l->weights && l->biases)
			d = distance(slope + l->weight_at, grad + l->weight_at, l->weights);
		if (d > 0.02)
			fail_msg("layer '%s': the gradient is off by %g", l->name, d);
	}
	assert_true(distance(slope, grad, net->params) < 0.01);
	tear_down(&s);
}

static void predicting_uses_the_running_statistics_and_fewer_rows(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	auto_free float *states = xcalloc(net->states, 4);
	const struct step step = { .seed = 3, .lr = 0 };
	struct step_result got;
	float all[5 * 4], two[2 * 4], before[5 * 4];
	struct setup s;

	(void)state;
	assert_int_equal(net->states, 2 * (3 + 4 + 7));
	set_up(&s, net, 5, NULL);
	assert_int_equal(engine_get(s.engine, ENGINE_STATES, states, NULL), 0);
	assert_true(states[0] == 0 && states[3] == 1);
	assert_int_equal(engine_predict(s.engine, &s.batch, before, NULL), 0);
	assert_int_equal(engine_step(s.engine, &s.batch, &step, 1, &got, NULL), 0);
	assert_int_equal(engine_get(s.engine, ENGINE_STATES, states, NULL), 0);
	assert_true(states[0] != 0 && states[3] != 1);
	assert_int_equal(engine_predict(s.engine, &s.batch, all, NULL), 0);
	assert_true(distance(all, before, 20) > 1e-3);
	s.batch.rows = 2;
	assert_int_equal(engine_predict(s.engine, &s.batch, two, NULL), 0);
	assert_memory_equal(two, all, sizeof(two));

	net_init_states(net, states);
	assert_int_equal(engine_set(s.engine, ENGINE_STATES, states, NULL), 0);
	s.batch.rows = 5;
	assert_int_equal(engine_predict(s.engine, &s.batch, all, NULL), 0);
	assert_memory_equal(all, before, sizeof(all));
	tear_down(&s);
}

/* With one image and weights behind it, a dropped value is a column of zeros in their gradient. */
static void dropout_masks_are_philoxs_numbers_of_seed_step_layer_and_row(void **state)
{
	const struct layer layers[] = { { LAYER_RELU, "relu" },
		{ LAYER_DROPOUT, "drop", .rate = 0.5f },
		{ LAYER_DENSE, "fc", .outputs = 3, .sigma = 0.5f } };
	auto_call(net_free) struct net *net =
		chain_net("n", shape3(1, 7, 7), layers, ARRAY_LEN(layers));
	const struct step step = { .seed = 0x123456789abcdef, .number = 0x100000007 };
	const struct exchange exchange = { .rank = 3, .ranks = 1 };
	auto_free float *grad = xcalloc(net->params, 4);
	float mask[4 * 49];
	struct step_result got;
	struct setup s;

	(void)state;
	set_up(&s, net, 1, &exchange);
	for (int i = 0; i < 49; i++)
		s.images[i] = (uint8_t)(200 + i);
	assert_int_equal(engine_step(s.engine, &s.batch, &step, 1, &got, NULL), 0);
	assert_int_equal(engine_get(s.engine, ENGINE_GRADS, grad, NULL), 0);
	rng_dropout(step.seed, step.number, 1, 0.5f, 0, mask, 4 * 49);
	for (int i = 0; i < 49; i++)
		assert_true((grad[net->layers[2].weight_at + (size_t)i] == 0) ==
			(mask[3 * 49 + i] == 0));
	tear_down(&s);
}

static void an_engine_that_only_predicts_is_smaller_and_has_no_gradients(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = { .batch = 5, .use = ENGINE_PREDICTS, .norm = { { 0 } } };
	auto_call(engine_close) struct engine *e = NULL;
	auto_free float *block = xcalloc(net->params, 4);
	struct mlr_error err = MLR_ERROR_INIT;
	struct step_result got;
	struct setup s;

	(void)state;
	config.norm = (struct image_norm){ { 127.5f, 127.5f }, { 127.5f, 127.5f } };
	set_up(&s, net, 5, NULL);
	assert_int_equal(backend_reference.open(net->layers, net->n, &config, &e, NULL), 0);
	assert_true(e->memory < s.engine->memory);
	assert_int_equal(engine_set(e, ENGINE_PARAMS, s.params, NULL), 0);
	float a[20], b[20];
	assert_int_equal(engine_predict(e, &s.batch, a, NULL), 0);
	assert_int_equal(engine_predict(s.engine, &s.batch, b, NULL), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(engine_get(e, ENGINE_GRADS, block, &err), -EINVAL);
	assert_non_null(strstr(err.text, "only predicts"));
	assert_int_equal(
		engine_step(e, &s.batch, &(struct step){ .lr = 1 }, 1, &got, NULL), -EINVAL);
	tear_down(&s);
}

/* --- two ranks ------------------------------------------------------------------------ */

struct run {
	struct setup s;
	struct step_result result[3];
	int status;
};

static void *three_steps(void *ctx)
{
	struct run *r = ctx;

	for (uint64_t i = 0; i < 3; i++) {
		const struct step step = {
			.lr = 0.1f, .momentum = 0.9f, .l2 = 0.01f, .seed = 3, .number = i
		};

		r->status = engine_step(r->s.engine, &r->s.batch, &step, 1, &r->result[i], NULL);
		if (r->status < 0)
			break;
	}
	return NULL;
}

static void compare_block(
	struct setup *a, struct setup *b, enum engine_block which, size_t n, double limit)
{
	auto_free float *x = xcalloc(n, 4), *y = xcalloc(n, 4);

	assert_int_equal(engine_get(a->engine, which, x, NULL), 0);
	assert_int_equal(engine_get(b->engine, which, y, NULL), 0);
	if (!(distance(x, y, n) <= limit))
		fail_msg("block %d differs by %g", (int)which, distance(x, y, n));
}

/* Batches of 3 rows whose mask of 7 units begins within one of Philox's fours. */
static void two_ranks_equal_one_at_the_same_global_batch(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct run whole, half[2];
	struct pair pair;
	pthread_t other;

	(void)state;
	pair_open(&pair);
	set_up(&whole.s, net, 6, NULL);
	for (int i = 0; i < 2; i++) {
		set_up(&half[i].s, net, 3, &pair.rank[i].exchange);
		half[i].s.batch.images = whole.s.images + (size_t)i * 3 * shape_count(&net->input);
		half[i].s.batch.labels = whole.s.labels + (size_t)i * 3;
	}
	three_steps(&whole);
	assert_int_equal(pthread_create(&other, NULL, three_steps, &half[1]), 0);
	three_steps(&half[0]);
	pthread_join(other, NULL);
	assert_true(whole.status == 0 && half[0].status == 0 && half[1].status == 0);
	for (int i = 0; i < 3; i++) {
		double mean =
			(half[0].result[i].cross_entropy + half[1].result[i].cross_entropy) / 2;

		assert_true(fabs(mean / whole.result[i].cross_entropy - 1) < 1e-5);
		assert_int_equal(
			half[0].result[i].wrong + half[1].result[i].wrong, whole.result[i].wrong);
		assert_true(fabs(half[0].result[i].norm2 / whole.result[i].norm2 - 1) < 1e-5);
	}
	for (enum engine_block k = ENGINE_PARAMS; k <= ENGINE_STATES; k++) {
		size_t n = k == ENGINE_STATES ? net->states : net->params;

		compare_block(&half[0].s, &half[1].s, k, n, 0);
		compare_block(&half[0].s, &whole.s, k, n, 1e-4);
	}
	tear_down(&whole.s);
	tear_down(&half[0].s);
	tear_down(&half[1].s);
	pair_close(&pair);
}

static int broken_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	(void)ctx;
	(void)x;
	(void)n;
	return mlr_fail(err, EIO, "rank 1 is gone");
}

static void a_rank_that_is_gone_fails_the_step(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	const struct exchange exchange = { .ranks = 2, .sum = broken_sum };
	struct mlr_error err = MLR_ERROR_INIT;
	struct step_result got;
	struct setup s;

	(void)state;
	set_up(&s, net, 2, &exchange);
	assert_int_equal(
		engine_step(s.engine, &s.batch, &(struct step){ .lr = 1 }, 1, &got, &err), -EIO);
	assert_string_equal(err.text, "backend reference: step: rank 1 is gone");
	tear_down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(average_pooling_has_the_gradient_of_finite_differences),
		cmocka_unit_test(global_pooling_has_the_gradient_of_finite_differences),
		cmocka_unit_test(batch_norm_has_the_gradients_of_finite_differences),
		cmocka_unit_test(
			batch_norm_makes_mean_0_and_variance_1_and_tracks_the_unbiased_one),
		cmocka_unit_test(a_residual_network_has_the_gradient_of_finite_differences),
		cmocka_unit_test(predicting_uses_the_running_statistics_and_fewer_rows),
		cmocka_unit_test(dropout_masks_are_philoxs_numbers_of_seed_step_layer_and_row),
		cmocka_unit_test(an_engine_that_only_predicts_is_smaller_and_has_no_gradients),
		cmocka_unit_test(two_ranks_equal_one_at_the_same_global_batch),
		cmocka_unit_test(a_rank_that_is_gone_fails_the_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
