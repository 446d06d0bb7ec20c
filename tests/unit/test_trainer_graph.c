/* The backend `reference` on networks that are no chains, and on many ranks. */
#include "trainer_engine.h"

#include "backend/ops.h"

/* --- layers by finite differences -------------------------------------------------- */

static void avgpool_of(void *l, const float *x, float *y)
{
	op_avgpool_forward(l, x, y);
}

static void average_pooling_has_the_gradient_of_finite_differences(void **state)
{
	struct op_pool all[] = { { 2, 3, 6, 8, 2, 2, 3, 4 }, { 2, 2, 7, 8, 3, 2, 3, 3 } };

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
	op_globalpool_forward(6, 20, x, y);
}

static void global_pooling_has_the_gradient_of_finite_differences(void **state)
{
	auto_free float *x = random_floats(1, 120), *r = random_floats(2, 6);
	float dx[120];

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
	check_norm((struct op_norm){ 3, 4, 6, 1e-5f }); /* an image's channels */
	check_norm((struct op_norm){ 9, 5, 1, 1e-3f }); /* a row's units */
}

static void batch_norm_makes_mean_0_and_variance_1_and_tracks_the_unbiased_one(void **state)
{
	struct op_norm d = { 2, 1, 2, 1e-12f };
	const float x[4] = { 1, 3, 5, 7 }, gamma = 2, beta = 10;
	float mean, var, y[4], running_mean = 1, running_var = 1;
	double moments[2];

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

static void set_up_reference(
	struct setup *s, struct net *net, int batch, const struct exchange *exchange)
{
	const struct engine_config config = config_of(batch, 1, exchange);

	set_up(s, &backend_reference, net, &config);
}

static void a_residual_network_has_the_gradient_of_finite_differences(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	auto_free float *grad = xcalloc(net->params, 4), *slope = xcalloc(net->params, 4);
	struct setup s;

	set_up_reference(&s, net, 5, NULL);
	loss_gradients(&s, grad, slope);
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
	auto_call(net_free) struct net *net = small_residual_net();
	auto_free float *states = xcalloc(net->states, 4);
	const struct step step = { .seed = 3, .lr = 0 };
	struct step_result got;
	float all[5 * 4], two[2 * 4], before[5 * 4];
	struct setup s;

	assert_int_equal(net->states, 2 * (3 + 8 + 7));
	set_up_reference(&s, net, 5, NULL);
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

	set_up_reference(&s, net, 1, &exchange);
	for (int i = 0; i < 49; i++)
		s.images[3 * 49 + i] = (uint8_t)(200 + i);
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
	auto_call(net_free) struct net *net = small_residual_net();
	struct engine_config config = config_of(5, 1, NULL);
	auto_call(engine_close) struct engine *e = NULL;
	auto_free float *block = xcalloc(net->params, 4);
	struct mlr_error err = MLR_ERROR_INIT;
	struct step_result got;
	struct setup s;

	config.use = ENGINE_PREDICTS;
	set_up_reference(&s, net, 5, NULL);
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

/* Batches of 3 rows whose mask of 7 units begins within one of Philox's fours. */
static void two_ranks_equal_one_at_the_same_global_batch(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	struct run whole = { .status = 0 }, half[2] = { { .status = 0 }, { .status = 0 } };
	struct pair pair;

	pair_open(&pair);
	set_up_reference(&whole.s, net, 6, NULL);
	for (int i = 0; i < 2; i++)
		set_up_reference(&half[i].s, net, 3, &pair.rank[i].exchange);
	three_steps(&whole);
	three_steps_each(half);
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
		compare_block(net, half[0].s.engine, half[1].s.engine, k, 0);
		compare_block(net, half[0].s.engine, whole.s.engine, k, 1e-4);
	}
	tear_down(&whole.s);
	tear_down(&half[0].s);
	tear_down(&half[1].s);
	pair_close(&pair);
}

static int broken_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	return mlr_fail(err, EIO, "rank 1 is gone");
}

static void a_rank_that_is_gone_fails_the_step(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	const struct exchange exchange = { .ranks = 2, .sum = broken_sum };
	struct mlr_error err = MLR_ERROR_INIT;
	struct step_result got;
	struct setup s;

	set_up_reference(&s, net, 2, &exchange);
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
