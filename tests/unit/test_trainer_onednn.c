/* The backend `onednn` against `reference`: chains, networks that are none, and two ranks. */
#include "trainer_engine.h"

#include "backend/dnn.h"
#include "backend/lanes.h"

#include <sys/wait.h>
#include <unistd.h>

#define ONLY "MLRUN_TEST_ONLY" /* a variable: a pattern of the tests to run */

/* What onednn may differ by, as || a - b || / || b ||: rounding of sums in another order. */
#define CLOSE 1e-4

static struct net *reference_net(void)
{
	struct net *net = NULL;

	assert_int_equal(net_reference(shape3(1, 28, 28), 10, 0.5f, &net, NULL), 0);
	return net;
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

/* Blocks of channels that are full, that are not, and Winograd's. Every kind of layer, outputs that
 * two and three layers read, a layer that reads the images late. */
static struct net *residual_net(void)
{
	enum {
		CONV1,
		BN1,
		RELU1,
		CONV2,
		BN2,
		SHORT,
		SUM,
		RELU2,
		FIVE,
		BN3,
		SUM2,
		RELU3,
		AVG,
		MAX,
		SUM3,
		LATE,
		POOL,
		SUM4,
		DROP,
		GLOBAL,
		FC1,
		BN4,
		RELU4,
		DROP2,
		TWICE,
		FC2,
		LAYERS
	};
	const struct layer layers[LAYERS] = {
		[CONV1] = { LAYER_CONV, "conv1", LAYER_INPUT, .outputs = 20, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN1] = { LAYER_BATCHNORM, "bn1", CONV1, .epsilon = 1e-3f, .momentum = 0.1f },
		[RELU1] = { LAYER_RELU, "relu1", BN1 },
		[CONV2] = { LAYER_CONV, "conv2", RELU1, .outputs = 16, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.2f, .no_bias = 1 },
		[BN2] = { LAYER_BATCHNORM, "bn2", CONV2, .epsilon = 1e-3f, .momentum = 0.1f,
			.decay = 0.5f },
		[SHORT] = { LAYER_CONV, "short", RELU1, .outputs = 16, .size = 1, .stride = 1,
			.sigma = 0.3f, .bias = 0.1f },
		[SUM] = { LAYER_ADD, "sum", BN2, SHORT },
		[RELU2] = { LAYER_RELU, "relu2", SUM },
		[FIVE] = { LAYER_CONV, "five", RELU2, .outputs = 16, .size = 5, .stride = 1,
			.pad = 2, .sigma = 0.1f, .no_bias = 1 },
		[BN3] = { LAYER_BATCHNORM, "bn3", FIVE, .epsilon = 1e-3f, .momentum = 0.1f },
		[SUM2] = { LAYER_ADD, "sum2", BN3, RELU2 },
		[RELU3] = { LAYER_RELU, "relu3", SUM2 },
		[AVG] = { LAYER_AVGPOOL, "avg", RELU3, .size = 2, .stride = 2 },
		[MAX] = { LAYER_MAXPOOL, "max", RELU3, .size = 3, .stride = 2, },
		[SUM3] = { LAYER_ADD, "sum3", AVG, MAX },
		[LATE] = { LAYER_CONV, "late", LAYER_INPUT, .outputs = 16, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.3f },
		[POOL] = { LAYER_MAXPOOL, "pool", LATE, .size = 2, .stride = 2 },
		[SUM4] = { LAYER_ADD, "sum4", SUM3, POOL },
		[DROP] = { LAYER_DROPOUT, "drop", SUM4, .rate = 0.25f },
		[GLOBAL] = { LAYER_GLOBALPOOL, "global", DROP },
		[FC1] = { LAYER_DENSE, "fc1", GLOBAL, .outputs = 21, .sigma = 0.5f, .decay = 1 },
		[BN4] = { LAYER_BATCHNORM, "bn4", FC1, .epsilon = 1e-3f, .momentum = 0.2f },
		[RELU4] = { LAYER_RELU, "relu4", BN4 },
		[DROP2] = { LAYER_DROPOUT, "drop2", RELU4, .rate = 0.5f },
		[TWICE] = { LAYER_ADD, "twice", DROP2, DROP2 },
		[FC2] = { LAYER_DENSE, "fc2", TWICE, .outputs = 5, .sigma = 0.5f },
	};

	return made_net("residual", shape3(3, 7, 7), layers, LAYERS);
}

static void compare_logits(struct setup *a, struct setup *b, double close)
{
	size_t n = (size_t)(a->batch.rows * a->net->classes);
	auto_free float *x = xcalloc(n, 4), *y = xcalloc(n, 4);

	assert_int_equal(engine_predict(a->engine, &a->batch, x, NULL), 0);
	assert_int_equal(engine_predict(b->engine, &b->batch, y, NULL), 0);
	if (!(distance(x, y, n) < close))
		fail_msg("logits differ by %g", distance(x, y, n));
}

static void compare_blocks(struct setup *got, struct setup *want, double close)
{
	for (enum engine_block k = ENGINE_PARAMS; k <= ENGINE_GRADS; k++)
		compare_block(want->net, got->engine, want->engine, k, close);
}

static void compare_states(struct setup *got, struct setup *want, double close)
{
	compare_block(want->net, got->engine, want->engine, ENGINE_STATES, close);
}

static void compare_smoothed(struct net *net, int batch, int threads, float smoothing)
{
	struct engine_config one = config_of(batch, 1, NULL),
			     many = config_of(batch, threads, NULL);
	struct setup r, o;

	one.smoothing = many.smoothing = smoothing;
	set_up(&r, &backend_reference, net, &one);
	set_up(&o, &backend_onednn, net, &many);
	compare_logits(&o, &r, CLOSE);
	for (uint64_t i = 0; i < 3; i++) {
		struct step_result want, got;

		assert_int_equal(step_of(&r, i, &want), 0);
		assert_int_equal(step_of(&o, i, &got), 0);
		assert_true(fabs(got.cross_entropy / want.cross_entropy - 1) < CLOSE);
		assert_true(fabs(got.penalty / want.penalty - 1) < CLOSE);
		assert_true(fabs(got.norm2 / want.norm2 - 1) < CLOSE);
		assert_int_equal(got.wrong, want.wrong);
		compare_blocks(&o, &r, CLOSE);
		compare_states(&o, &r, CLOSE);
	}
	compare_logits(&o, &r, CLOSE);
	o.batch.rows = r.batch.rows = (batch + 1) / 2;
	compare_logits(&o, &r, CLOSE);
	tear_down(&r);
	tear_down(&o);
}

static void compare_steps(struct net *net, int batch, int threads)
{
	compare_smoothed(net, batch, threads, 0);
}

static void onednn_computes_the_steps_of_reference_on_a_residual_network(void **state)
{
	auto_call(net_free) struct net *net = residual_net();

	compare_steps(net, 6, 1);
	compare_steps(net, 5, 3);
}

static void onednn_computes_the_steps_of_reference_on_the_reference_network(void **state)
{
	auto_call(net_free) struct net *net = reference_net();

	compare_steps(net, 5, 2);
}

static void onednn_computes_the_steps_of_reference_on_odd_sizes(void **state)
{
	auto_call(net_free) struct net *net = odd_net();

	compare_steps(net, 5, 1);
	compare_steps(net, 6, 3);
}

static void onednn_computes_the_steps_of_reference_where_kernels_are_5x5(void **state)
{
	auto_call(net_free) struct net *net = kernels_of_5_net();

	compare_steps(net, 3, 2);
}

static void onednn_computes_the_steps_of_reference_on_a_small_network(void **state)
{
	auto_call(net_free) struct net *net = small_net();

	compare_steps(net, 1, 2);
	compare_smoothed(net, 3, 2, 0.25f);
}

static void onednn_repeats_a_step_bit_by_bit(void **state)
{
	auto_call(net_free) struct net *net = reference_net();
	auto_free float *a = xcalloc(net->params, 4), *b = xcalloc(net->params, 4);
	const struct engine_config config = config_of(16, 2, NULL);

	for (int run = 0; run < 2; run++) {
		struct step_result got;
		struct setup s;

		set_up(&s, &backend_onednn, net, &config);
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(step_of(&s, i, &got), 0);
		assert_int_equal(engine_get(s.engine, ENGINE_PARAMS, run ? b : a, NULL), 0);
		tear_down(&s);
	}
	assert_memory_equal(a, b, net->params * sizeof(float));
}

static void what_is_set_in_onednns_layout_comes_back(void **state)
{
	auto_call(net_free) struct net *net = odd_net();
	auto_free float *a = random_floats(1, net->params), *b = xcalloc(net->params, 4);
	const struct engine_config config = config_of(2, 1, NULL);
	struct setup s;

	set_up(&s, &backend_onednn, net, &config);
	assert_int_equal(engine_set(s.engine, ENGINE_OPTIMISER, a, NULL), 0);
	assert_int_equal(engine_get(s.engine, ENGINE_OPTIMISER, b, NULL), 0);
	assert_memory_equal(a, b, net->params * sizeof(float));
	assert_int_equal(engine_get(s.engine, ENGINE_PARAMS, b, NULL), 0);
	assert_memory_equal(s.params, b, net->params * sizeof(float));
	tear_down(&s);
}

static void states_that_are_set_are_predicted_with(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config c = config_of(4, 2, NULL);
	auto_free float *states = random_floats(23, net->states);
	struct setup r, o;

	for (size_t i = 0; i < net->states; i++)
		states[i] += 1.5f;
	set_up(&r, &backend_reference, net, &c);
	set_up(&o, &backend_onednn, net, &c);
	assert_int_equal(engine_set(r.engine, ENGINE_STATES, states, NULL), 0);
	assert_int_equal(engine_set(o.engine, ENGINE_STATES, states, NULL), 0);
	compare_logits(&o, &r, CLOSE);
	tear_down(&r);
	tear_down(&o);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void two_ranks_compute_what_one_does_with_both_batches(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = config_of(6, 2, NULL);
	struct pair pair;
	struct run one = { .status = 0 }, two[2] = { { .status = 0 }, { .status = 0 } };

	pair_open(&pair);
	set_up(&one.s, &backend_reference, net, &config);
	three_steps(&one);
	for (int i = 0; i < 2; i++) {
		config = config_of(3, 1, &pair.rank[i].exchange);
		set_up(&two[i].s, &backend_onednn, net, &config);
	}
	assert_true(two[0].s.engine->layout == two[1].s.engine->layout);
	three_steps_each(two);
	assert_true(two[0].status == 0 && two[1].status == 0);
	for (int i = 0; i < 3; i++) {
		double mean = (two[0].result[i].cross_entropy + two[1].result[i].cross_entropy) / 2;

		assert_true(fabs(mean / one.result[i].cross_entropy - 1) < CLOSE);
		assert_int_equal(
			two[0].result[i].wrong + two[1].result[i].wrong, one.result[i].wrong);
	}
	compare_blocks(&two[0].s, &one.s, CLOSE);
	compare_blocks(&two[1].s, &one.s, CLOSE);
	compare_states(&two[0].s, &one.s, CLOSE);
	for (int i = 0; i < 2; i++)
		tear_down(&two[i].s);
	tear_down(&one.s);
	pair_close(&pair);
}

/* An exchange that fails when it is waited for. */
static int wait_in_vain(void *ctx, struct mlr_error *err)
{
	pair_wait(ctx, NULL);
	return mlr_fail(err, EIO, "rank 1 is gone");
}

static void a_rank_that_fails_ends_the_step_with_its_error(void **state)
{
	auto_call(net_free) struct net *net = NULL;
	struct pair pair;
	struct engine_config config;
	struct run run[2] = { { .status = 0 }, { .status = 0 } };

	assert_int_equal(net_reference(shape3(1, 8, 8), 3, 0.5f, &net, NULL), 0);
	pair_open(&pair);
	for (int i = 0; i < 2; i++) {
		pair.rank[i].exchange.wait = wait_in_vain;
		config = config_of(2, 1, &pair.rank[i].exchange);
		set_up(&run[i].s, &backend_onednn, net, &config);
	}
	three_steps_each(run);
	assert_int_equal(run[0].status, -EIO);
	assert_int_equal(run[1].status, -EIO);
	for (int i = 0; i < 2; i++)
		tear_down(&run[i].s);
	pair_close(&pair);
}

/* --- engines that only predict --------------------------------------------------------------- */

/* Batch norm behind convolutions that pool, of images and by Winograd, and behind a dense layer. */
static struct net *folded_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "a", .outputs = 16, .size = 3, .stride = 1, .pad = 1, .sigma = 0.4f,
			.no_bias = 1 },
		{ LAYER_BATCHNORM, "bn_a", .epsilon = 1e-3f, .momentum = 0.1f },
		{ LAYER_RELU, "relu_a" },
		{ LAYER_MAXPOOL, "pool_a", .size = 2 },
		{ LAYER_CONV, "b", .outputs = 48, .size = 5, .stride = 1, .pad = 2, .sigma = 0.1f,
			.bias = 0.1f },
		{ LAYER_BATCHNORM, "bn_b", .epsilon = 1e-3f, .momentum = 0.1f },
		{ LAYER_MAXPOOL, "pool_b", .size = 2 },
		{ LAYER_CONV, "c", .outputs = 20, .size = 3, .stride = 1, .pad = 1, .sigma = 0.1f },
		{ LAYER_BATCHNORM, "bn_c", .epsilon = 1e-3f, .momentum = 0.1f },
		{ LAYER_DENSE, "d", .outputs = 45, .sigma = 0.1f },
		{ LAYER_BATCHNORM, "bn_d", .epsilon = 1e-3f, .momentum = 0.1f },
		{ LAYER_RELU, "relu_d" },
		{ LAYER_DENSE, "e", .outputs = 3, .sigma = 0.3f },
	};

	return chain_net("folded", shape3(2, 15, 13), layers, ARRAY_LEN(layers));
}

static void predicting_alone_agrees(struct net *net)
{
	struct engine_config config = config_of(13, 2, NULL);
	auto_free float *states = random_floats(23, net->states), *back = NULL;
	struct setup r, p;

	back = xcalloc(net->states, sizeof(float));
	for (size_t i = 0; i < net->states; i++)
		states[i] += 1.5f;
	set_up(&r, &backend_reference, net, &config);
	config.use = ENGINE_PREDICTS;
	set_up(&p, &backend_onednn, net, &config);
	compare_logits(&p, &r, CLOSE);
	assert_int_equal(engine_set(r.engine, ENGINE_STATES, states, NULL), 0);
	assert_int_equal(engine_set(p.engine, ENGINE_STATES, states, NULL), 0);
	assert_int_equal(engine_get(p.engine, ENGINE_STATES, back, NULL), 0);
	assert_memory_equal(back, states, net->states * sizeof(float));
	for (int rows = 1; rows <= 13; rows++) {
		p.batch.rows = r.batch.rows = rows;
		compare_logits(&p, &r, CLOSE);
	}
	tear_down(&r);
	tear_down(&p);
}

/* Whatever batch an image comes in, and whatever batch the engine is made for. */
static void answers_have_the_same_bits_in_every_batch(struct net *net)
{
	struct engine_config config = config_of(13, 2, NULL);
	float all[13 * 10], some[13 * 10];
	size_t classes = (size_t)net->classes;
	struct setup whole, s;

	if (!lanes_find())
		return; /* oneDNN's products, which promise nothing */
	assert_true(classes <= 10);
	config.use = ENGINE_PREDICTS;
	set_up(&whole, &backend_onednn, net, &config);
	assert_int_equal(engine_predict(whole.engine, &whole.batch, all, NULL), 0);
	for (int size = 1; size <= 13; size++) {
		config.batch = size;
		set_up(&s, &backend_onednn, net, &config);
		for (int rows = 1; rows <= size; rows++) {
			s.batch.rows = whole.batch.rows = rows;
			assert_int_equal(engine_predict(s.engine, &s.batch, some, NULL), 0);
			assert_memory_equal(some, all, (size_t)rows * classes * sizeof(float));
			assert_int_equal(engine_predict(whole.engine, &whole.batch, some, NULL), 0);
			assert_memory_equal(some, all, (size_t)rows * classes * sizeof(float));
		}
		tear_down(&s);
	}
	tear_down(&whole);
}

static void an_answer_does_not_depend_on_the_batch(void **state)
{
	auto_call(net_free) struct net *folded = folded_net(), *residual = residual_net();
	auto_call(net_free) struct net *net = reference_net();

	answers_have_the_same_bits_in_every_batch(folded);
	answers_have_the_same_bits_in_every_batch(residual);
	answers_have_the_same_bits_in_every_batch(net);
}

static void predicting_alone_agrees_with_any_number_of_rows(void **state)
{
	auto_call(net_free) struct net *folded = folded_net(), *residual = residual_net();
	auto_call(net_free) struct net *net = reference_net();

	predicting_alone_agrees(folded);
	predicting_alone_agrees(residual);
	predicting_alone_agrees(net);
}

static void an_engine_that_only_predicts_is_smaller_and_agrees(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = config_of(5, 2, NULL);
	auto_free float *states = random_floats(23, net->states), *block = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct step_result got;
	struct setup r, o, p;

	block = xcalloc(net->params, sizeof(float));
	for (size_t i = 0; i < net->states; i++)
		states[i] += 1.5f;
	set_up(&r, &backend_reference, net, &config);
	set_up(&o, &backend_onednn, net, &config);
	config.use = ENGINE_PREDICTS;
	set_up(&p, &backend_onednn, net, &config);
	assert_true(p.engine->memory < o.engine->memory);
	compare_logits(&p, &r, CLOSE);
	assert_int_equal(engine_set(r.engine, ENGINE_STATES, states, NULL), 0);
	assert_int_equal(engine_set(p.engine, ENGINE_STATES, states, NULL), 0);
	compare_logits(&p, &r, CLOSE);
	for (int rows = 1; rows < 5; rows++) {
		p.batch.rows = r.batch.rows = rows;
		compare_logits(&p, &r, CLOSE);
	}
	assert_int_equal(engine_get(p.engine, ENGINE_GRADS, block, &err), -EINVAL);
	assert_non_null(strstr(err.text, "only predicts"));
	assert_int_equal(step_of(&p, 0, &got), -EINVAL);
	assert_int_equal(engine_get(p.engine, ENGINE_PARAMS, block, NULL), 0);
	assert_memory_equal(block, p.params, net->params * sizeof(float));
	tear_down(&r);
	tear_down(&o);
	tear_down(&p);
}

/* --- bf16 ------------------------------------------------------------------------------------- */

/*
 * Numbers of 8 bits carry an error of up to 2^-9 each, and a gradient has been through a dozen of
 * them; where rounding makes another element the greatest of its window or crosses a ReLU's kink,
 * it goes another way, the more as a CPU with AVX512_BF16 multiplies Winograd's points in bf16 when
 * it trains. With few images that is a fifth of its length. What is wrong in a layer shows as a
 * difference near 1.
 */
#define CLOSE_BF16 0.3

/* Batch norm behind what hardly differs from image to image would make much of rounding: here it
 * stands behind convolutions alone. */
static struct net *bf16_net(void)
{
	enum { CONV1, BN1, RELU1, FIVE, SHORT, SUM, RELU2, AVG, MAX, SUM2, DROP, FC1, LAYERS };
	const struct layer layers[LAYERS] = {
		[CONV1] = { LAYER_CONV, "conv1", LAYER_INPUT, .outputs = 20, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.4f, .no_bias = 1 },
		[BN1] = { LAYER_BATCHNORM, "bn1", CONV1, .epsilon = 1e-3f, .momentum = 0.1f },
		[RELU1] = { LAYER_RELU, "relu1", BN1 },
		[FIVE] = { LAYER_CONV, "five", RELU1, .outputs = 16, .size = 5, .stride = 1,
			.pad = 2, .sigma = 0.1f, .bias = 0.1f },
		[SHORT] = { LAYER_CONV, "short", RELU1, .outputs = 16, .size = 1, .stride = 1,
			.sigma = 0.3f, .bias = 0.1f },
		[SUM] = { LAYER_ADD, "sum", FIVE, SHORT },
		[RELU2] = { LAYER_RELU, "relu2", SUM },
		[AVG] = { LAYER_AVGPOOL, "avg", RELU2, .size = 2, .stride = 2 },
		[MAX] = { LAYER_MAXPOOL, "max", RELU2, .size = 3, .stride = 2 },
		[SUM2] = { LAYER_ADD, "sum2", AVG, MAX },
		[DROP] = { LAYER_DROPOUT, "drop", SUM2, .rate = 0.25f },
		[FC1] = { LAYER_DENSE, "fc1", DROP, .outputs = 5, .sigma = 0.1f, .decay = 1 },
	};

	return made_net("bf16", shape3(3, 7, 7), layers, LAYERS);
}

static int has_bf16(void)
{
	auto_call(net_free) struct net *net = residual_net();
	auto_call(engine_close) struct engine *e = NULL;
	struct engine_config config = config_of(1, 1, NULL);

	config.dtype = DTYPE_BF16;
	return backend_onednn.open(net->layers, net->n, &config, &e, NULL) == 0;
}

static void compare_bf16(struct net *net, int batch)
{
	struct engine_config config = config_of(batch, 2, NULL);
	struct step_result want, got;
	struct setup r, o, p;

	set_up(&r, &backend_reference, net, &config);
	config.dtype = DTYPE_BF16;
	set_up(&o, &backend_onednn, net, &config);
	assert_int_equal(o.engine->dtype, DTYPE_BF16);
	compare_logits(&o, &r, 0.02);
	config.use = ENGINE_PREDICTS;
	set_up(&p, &backend_onednn, net, &config);
	compare_logits(&p, &r, 0.02);
	tear_down(&p);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(step_of(&r, i, &want), 0);
		assert_int_equal(step_of(&o, i, &got), 0);
		assert_true(fabs(got.cross_entropy / want.cross_entropy - 1) < 0.05);
		assert_true(fabs(got.norm2 / want.norm2 - 1) < 1e-3);
		if (i == 0)
			compare_blocks(&o, &r, CLOSE_BF16);
	}
	tear_down(&r);
	tear_down(&o);
}

static void bf16_computes_the_steps_of_reference_but_for_rounding(void **state)
{
	auto_call(net_free) struct net *graph = bf16_net();
	auto_call(net_free) struct net *net = reference_net();

	if (!has_bf16())
		return;
	compare_bf16(net, 7);
	compare_bf16(graph, 12);
}

/* Run tests of this program in another, for which the CPU has AVX2 alone; returns its status. */
static int without_bf16(const char *tests)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
		setenv(ONLY, tests, 1);
		execl("/proc/self/exe", "test_trainer_onednn", NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Where the CPU has no bf16, a network computes what one in f32 does with the rounded weights, bit
 * for bit, and keeps the others. */
static void bf16_without_instructions_is_f32_with_rounded_weights(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = config_of(4, 2, NULL);
	auto_free float *kept = xcalloc(net->params, sizeof(*kept));
	struct setup half, whole;

	if (dnn_has_bf16()) {
		assert_int_equal(without_bf16(__func__), 0);
		return;
	}
	set_up(&whole, &backend_onednn, net, &config);
	config.dtype = DTYPE_BF16;
	set_up(&half, &backend_onednn, net, &config);
	assert_int_equal(engine_get(half.engine, ENGINE_PARAMS, kept, NULL), 0);
	assert_memory_equal(kept, half.params, net->params * sizeof(float));
	for (size_t i = 0; i < net->n; i++) {
		const struct layer *l = &net->layers[i];

		for (size_t k = 0; l->kind != LAYER_BATCHNORM && k < l->weights; k++) {
			union {
				float f;
				uint32_t u;
			} w = { kept[l->weight_at + k] };

			w.u = (w.u + 0x7fff + (w.u >> 16 & 1)) & 0xffff0000;
			kept[l->weight_at + k] = w.f;
		}
	}
	assert_int_equal(engine_set(whole.engine, ENGINE_PARAMS, kept, NULL), 0);
	compare_logits(&half, &whole, 1e-30);
	tear_down(&half);
	tear_down(&whole);
}

static void the_memory_plan_names_every_layer_and_the_whole(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = config_of(4, 2, NULL);
	auto_free char *text = NULL;
	char whole[64];
	struct setup s;

	set_up(&s, &backend_onednn, net, &config);
	text = s.engine->backend->plan(s.engine);
	assert_non_null(text);
	snprintf(whole, sizeof(whole), "%zu KiB  in all", s.engine->memory / 1024);
	assert_non_null(strstr(text, whole));
	assert_non_null(strstr(text, "  conv1 ("));
	assert_non_null(strstr(text, "  bn3 (batch norm)"));
	assert_non_null(strstr(text, "  sum2 (sum, ReLU)"));
	assert_non_null(strstr(text, "  fc2 ("));
	tear_down(&s);
}

static void tf32_is_refused_with_a_way_out(void **state)
{
	auto_call(net_free) struct net *net = residual_net();
	struct engine_config config = config_of(1, 1, NULL);
	struct mlr_error err = MLR_ERROR_INIT;
	struct engine *e = NULL;

	config.dtype = DTYPE_TF32;
	assert_int_equal(backend_onednn.open(net->layers, net->n, &config, &e, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "backend onednn: tf32 is not possible on this CPU"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_a_residual_network),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_a_small_network),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_odd_sizes),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_where_kernels_are_5x5),
		cmocka_unit_test(onednn_computes_the_steps_of_reference_on_the_reference_network),
		cmocka_unit_test(onednn_repeats_a_step_bit_by_bit),
		cmocka_unit_test(what_is_set_in_onednns_layout_comes_back),
		cmocka_unit_test(states_that_are_set_are_predicted_with),
		cmocka_unit_test(two_ranks_compute_what_one_does_with_both_batches),
		cmocka_unit_test(a_rank_that_fails_ends_the_step_with_its_error),
		cmocka_unit_test(bf16_computes_the_steps_of_reference_but_for_rounding),
		cmocka_unit_test(bf16_without_instructions_is_f32_with_rounded_weights),
		cmocka_unit_test(the_memory_plan_names_every_layer_and_the_whole),
		cmocka_unit_test(tf32_is_refused_with_a_way_out),
		cmocka_unit_test(predicting_alone_agrees_with_any_number_of_rows),
		cmocka_unit_test(an_answer_does_not_depend_on_the_batch),
		cmocka_unit_test(an_engine_that_only_predicts_is_smaller_and_agrees),
	};

	if (getenv(ONLY))
		cmocka_set_test_filter(getenv(ONLY));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
