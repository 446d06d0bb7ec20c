/*
 * The backend cuda against `reference`. This file makes two programs: test_trainer_cuda runs the
 * whole engine and our kernels on the CPU (cuda_fake/, cuda_on_cpu/), with plain loops in place of
 * cuDNN, cuBLASLt and NCCL; test_trainer_cuda_device runs the plugin on a GPU, and is skipped where
 * there is none.
 */
#include "trainer_net.h"
#include "trainer_test.h"

#include "optimiser/optimiser.h"
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#ifdef CUDA_ON_DEVICE
#define BATCH 64
static const struct backend *cuda_backend(void)
{
	return &backend_cuda;
}
#else
#include "cuda_fake/cublasLt.h"
#include "cuda_fake/cuda_runtime_api.h"
#include "cuda_fake/nccl.h"
#include "cuda_on_cpu/cuda_on_cpu.h"
#include "backend/cuda/plan.h"
#define BATCH 5
extern const struct cuda_plugin mltrain_cuda;

static const struct backend *cuda_backend(void)
{
	return mltrain_cuda.backend;
}
#endif

/* The reference network's layers at a size that the CPU can afford; pools taken in, dropout on
 * rows. */
static struct net *usual_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "conv1", .outputs = 8, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.2f, .bias = 0.1f },
		{ LAYER_RELU, "relu1" },
		{ LAYER_MAXPOOL, "pool1", .size = 2 },
		{ LAYER_CONV, "conv2", .outputs = 16, .size = 5, .stride = 1, .pad = 2,
			.sigma = 0.1f, .bias = 0.1f },
		{ LAYER_RELU, "relu2" },
		{ LAYER_MAXPOOL, "pool2", .size = 2 },
		{ LAYER_DENSE, "fc1", .outputs = 32, .sigma = 0.1f, .bias = 0.1f, .decay = 1 },
		{ LAYER_RELU, "relu3" },
		{ LAYER_DROPOUT, "dropout", .rate = 0.5f },
		{ LAYER_DENSE, "fc2", .outputs = 10, .sigma = 0.2f, .bias = 0.1f, .decay = 1 },
	};

	return chain_net("usual", shape3(1, 12, 12), layers, ARRAY_LEN(layers));
}

/* Many classes, and ReLU and maxima behind a convolution without biases. */
static struct net *many_classes_net(void)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "a", .outputs = 8, .size = 3, .stride = 1, .pad = 1, .sigma = 0.3f,
			.no_bias = 1 },
		{ LAYER_RELU, "relu_a" },
		{ LAYER_MAXPOOL, "max_a", .size = 2 },
		{ LAYER_AVGPOOL, "avg", .size = 2 },
		{ LAYER_RELU, "relu" },
		{ LAYER_MAXPOOL, "max", .size = 3 },
		{ LAYER_DENSE, "fc", .outputs = 100, .sigma = 0.2f },
	};

	return chain_net("many classes", shape3(4, 12, 12), layers, ARRAY_LEN(layers));
}

/* A residual network whose channels are multiples of 8, as most are; one output is read by two
 * layers. */
static struct net *wide_net(void)
{
	enum { STEM, RELU, CONV1, BN, CONV2, SUM, RELU2, GLOBAL, FC1, RELU3, DROP, FC2 };
	const struct layer layers[] = {
		[STEM] = { LAYER_CONV, "stem", LAYER_INPUT, .outputs = 8, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.4f, .bias = 0.1f },
		[RELU] = { LAYER_RELU, "relu", STEM },
		[CONV1] = { LAYER_CONV, "conv1", RELU, .outputs = 16, .size = 3, .stride = 1,
			.pad = 1, .sigma = 0.2f, .no_bias = 1 },
		[BN] = { LAYER_BATCHNORM, "bn", CONV1, .epsilon = 1e-3f, .momentum = 0.1f },
		[CONV2] = { LAYER_CONV, "conv2", BN, .outputs = 8, .size = 3, .stride = 1, .pad = 1,
			.sigma = 0.2f, .no_bias = 1 },
		[SUM] = { LAYER_ADD, "sum", CONV2, RELU },
		[RELU2] = { LAYER_RELU, "relu2", SUM },
		[GLOBAL] = { LAYER_GLOBALPOOL, "global", RELU2 },
		[FC1] = { LAYER_DENSE, "fc1", GLOBAL, .outputs = 24, .sigma = 0.5f, .bias = 0.1f,
			.decay = 0.5f },
		[RELU3] = { LAYER_RELU, "relu3", FC1 },
		[DROP] = { LAYER_DROPOUT, "drop", RELU3, .rate = 0.25f },
		[FC2] = { LAYER_DENSE, "fc2", DROP, .outputs = 40, .sigma = 0.5f },
	};

	return made_net("wide", shape3(2, 6, 8), layers, ARRAY_LEN(layers));
}

/* --- engines ---------------------------------------------------------------------------- */

#define STEPS 11 /* more than are one graph */

struct setup {
	const struct net *net;
	struct engine *engine;
	int batch;
	uint8_t *images; /* [count] */
	int count;
	uint32_t *index;         /* [STEPS][batch] */
	uint16_t *labels;        /* [STEPS][batch] */
	struct augment *augment; /* [STEPS][batch] */
	struct batch batches[STEPS];
	struct step steps[STEPS];
};

static void make_batches(struct setup *s, int altered)
{
	size_t pixels = shape_count(&s->net->input), rows = STEPS * (size_t)s->batch;
	struct rng rng;

	s->count = 3 * s->batch;
	s->images = xcalloc((size_t)s->count, pixels);
	s->index = xcalloc(rows, sizeof(*s->index));
	s->labels = xcalloc(rows, sizeof(*s->labels));
	s->augment = xcalloc(rows, sizeof(*s->augment));
	rng_init(&rng, 11, RNG_TEST, 0);
	for (size_t i = 0; i < (size_t)s->count * pixels; i++)
		s->images[i] = (uint8_t)rng_below(&rng, 256);
	for (size_t i = 0; i < rows; i++) {
		s->index[i] = rng_below(&rng, (uint32_t)s->count);
		s->labels[i] = (uint16_t)rng_below(&rng, (uint32_t)s->net->classes);
		s->augment[i] = (struct augment){ .down = (int8_t)(rng_below(&rng, 5) - 2),
			.right = (int8_t)(rng_below(&rng, 5) - 2),
			.flip = (uint8_t)rng_below(&rng, 2),
			.cut = 3,
			.cut_y = (int16_t)(rng_below(&rng, 8) - 1),
			.cut_x = (int16_t)(rng_below(&rng, 8) - 1) };
	}
	for (int i = 0; i < STEPS; i++) {
		size_t at = (size_t)(i * s->batch);

		s->batches[i] = (struct batch){ s->batch, s->images, s->index + at,
			altered ? s->augment + at : NULL, s->labels + at };
		s->steps[i] = (struct step){ .lr = 0.02f / (float)(i + 1),
			.momentum = 0.9f,
			.l2 = 0.01f,
			.seed = 0x1234567890u,
			.number = (uint64_t)i + 100 };
	}
}

static struct setup set_up(const struct backend *b, const struct net *net,
	const struct engine_config *like, int altered)
{
	struct engine_config config = *like;
	struct setup s = { .net = net, .batch = config.batch };
	auto_free float *params = xcalloc(net->params, sizeof(float));

	for (int c = 0; c < IMAGE_CHANNELS_MAX; c++) {
		config.norm.mean[c] = 120.0f + (float)c;
		config.norm.scale[c] = 127.5f;
	}
	config.threads = 1;
	s.engine = made_engine(b, net, &config, params);
	make_batches(&s, altered);
	return s;
}

static void tear_down(struct setup *s)
{
	engine_close(&s->engine);
	free(s->images);
	free(s->index);
	free(s->labels);
	free(s->augment);
}

static void take_steps(struct setup *s, int from, int n, struct step_result *ret)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (engine_step(s->engine, s->batches + from, s->steps + from, n, ret, &err) < 0)
		fail_msg("%s", err.text);
}

static void compare_results(
	const struct step_result *got, const struct step_result *want, int n, double close)
{
	for (int i = 0; i < n; i++) {
		if (fabs(got[i].cross_entropy / want[i].cross_entropy - 1) > close)
			fail_msg("step %d: cross-entropy %g instead of %g", i, got[i].cross_entropy,
				want[i].cross_entropy);
		assert_true(
			want[i].penalty == 0 || fabs(got[i].penalty / want[i].penalty - 1) < close);
		assert_true(fabs(got[i].norm2 / want[i].norm2 - 1) < close);
		if (close < 1e-3)
			assert_int_equal(got[i].wrong, want[i].wrong);
	}
}

static void compare_blocks(struct setup *got, struct setup *want, double close)
{
	for (enum engine_block k = ENGINE_PARAMS; k <= ENGINE_STATES; k++)
		compare_block(want->net, got->engine, want->engine, k,
			k == ENGINE_PARAMS ? close : 10 * close);
}

static void compare_logits(struct setup *got, struct setup *want, int rows, double close)
{
	size_t n = (size_t)(rows * want->net->classes);
	auto_free float *a = xcalloc(n, 4), *b = xcalloc(n, 4);
	size_t from = (size_t)got->batch * shape_count(&want->net->input); /* not the first */
	struct batch batch = { .rows = rows, .images = got->images + from };
	double d;

	assert_int_equal(engine_predict(got->engine, &batch, a, NULL), 0);
	batch.images = want->images + from;
	assert_int_equal(engine_predict(want->engine, &batch, b, NULL), 0);
	d = distance(a, b, n);
	if (!(d < close))
		fail_msg("logits of %d rows differ by %g", rows, d);
}

/* What is allowed to differ, relatively: rounding in another order; TF32 has 10 bits, bf16 has
 * 8. */
static double close_of(enum dtype dtype)
{
	return dtype == DTYPE_F32 ? 1e-4 : dtype == DTYPE_TF32 ? 4e-3 : 4e-2;
}

/* A first step, which goes kernel by kernel, then many as graphs. */
static void compare(struct net *net, int batch, enum dtype dtype, int altered, int held)
{
	struct engine_config config = { .batch = batch, .dtype = dtype };
	struct engine_config plain = { .batch = batch };
	struct setup got = set_up(cuda_backend(), net, &config, altered);
	struct setup want = set_up(&backend_reference, net, &plain, altered);
	struct step_result a[STEPS], b[STEPS];
	double close = close_of(dtype);
	int steps = dtype == DTYPE_F32 ? STEPS : 2; /* others' paths part as they go on */

	if (held)
		assert_int_equal(engine_hold(got.engine, got.images, (size_t)got.count, NULL), 0);
	compare_logits(&got, &want, batch, close);
	take_steps(&got, 0, 1, a);
	take_steps(&want, 0, 1, b);
	compare_results(a, b, 1, close);
	compare_block(net, got.engine, want.engine, ENGINE_GRADS, 10 * close);
	take_steps(&got, 1, steps - 1, a);
	take_steps(&want, 1, steps - 1, b);
	compare_results(a, b, steps - 1, 10 * close);
	compare_blocks(&got, &want, 10 * close);
	compare_logits(&got, &want, batch - 1, 100 * close);
	tear_down(&got);
	tear_down(&want);
}

static void compare_both_ways(struct net *net, int batch, enum dtype dtype)
{
	compare(net, batch, dtype, 0, 0);
	compare(net, batch, dtype, 1, 1);
}

#define COMPARISON(name, made, dtype)                       \
	static void name(void **state)                      \
	{                                                   \
		auto_call(net_free) struct net *net = made; \
                                                            \
		(void)state;                                \
		compare_both_ways(net, BATCH, dtype);       \
	}

COMPARISON(cuda_computes_the_steps_of_reference_on_usual_layers, usual_net(), DTYPE_F32)
COMPARISON(cuda_computes_the_steps_of_reference_on_odd_sizes, odd_net(), DTYPE_F32)
COMPARISON(cuda_computes_the_steps_of_reference_on_many_classes, many_classes_net(), DTYPE_F32)
COMPARISON(cuda_computes_the_steps_of_reference_on_whole_vectors, wide_net(), DTYPE_F32)
COMPARISON(in_bf16_whole_vectors_are_those_of_reference_within_its_bits, wide_net(), DTYPE_BF16)
COMPARISON(
	cuda_computes_the_steps_of_reference_on_a_residual_network, small_residual_net(), DTYPE_F32)
COMPARISON(in_tf32_steps_are_those_of_reference_within_its_bits, usual_net(), DTYPE_TF32)
COMPARISON(in_bf16_steps_are_those_of_reference_within_its_bits, usual_net(), DTYPE_BF16)
COMPARISON(in_bf16_a_residual_network_is_that_of_reference_within_its_bits, small_residual_net(),
	DTYPE_BF16)

/* Adam's steps have one size, whatever the gradient: one that is nothing but rounding counts. */
static void adam_and_adamw_take_the_steps_of_reference(void **state)
{
	auto_call(net_free) struct net *net = usual_net();

	for (int which = OPTIMISER_ADAM; which <= OPTIMISER_ADAMW; which++) {
		struct engine_config config = { .batch = BATCH, .optimiser = which };
		struct setup got = set_up(cuda_backend(), net, &config, 0);
		struct setup want = set_up(&backend_reference, net, &config, 0);
		struct step_result a[STEPS], b[STEPS];

		take_steps(&got, 0, 1, a);
		take_steps(&want, 0, 1, b);
		take_steps(&got, 1, STEPS - 1, a + 1);
		take_steps(&want, 1, STEPS - 1, b + 1);
		compare_results(a, b, STEPS, 1e-3);
		compare_block(net, got.engine, want.engine, ENGINE_PARAMS, 1e-3);
		compare_block(net, got.engine, want.engine, ENGINE_OPTIMISER, 1e-3);
		compare_block(net, got.engine, want.engine, ENGINE_OPTIMISER + 1, 1e-3);
		tear_down(&got);
		tear_down(&want);
	}
}

static void a_run_repeats_bit_by_bit_however_its_steps_are_cut_into_calls(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	auto_free float *a = xcalloc(net->params, 4), *b = xcalloc(net->params, 4);
	struct engine_config config = { .batch = BATCH, .dtype = DTYPE_BF16, .deterministic = 1 };
	struct step_result got[STEPS];

	for (int run = 0; run < 2; run++) {
		struct setup s = set_up(cuda_backend(), net, &config, 0);

		/* cut in other ways the second time: graphs of one step and of several */
		for (int i = 0; i < STEPS; i += run ? STEPS : 1)
			take_steps(&s, i, run ? STEPS : 1, got);
		assert_int_equal(engine_get(s.engine, ENGINE_PARAMS, run ? b : a, NULL), 0);
		tear_down(&s);
	}
	assert_memory_equal(a, b, net->params * sizeof(float));
}

static void what_is_set_in_the_gpus_layout_comes_back(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	struct engine_config config = {
		.batch = 2, .dtype = DTYPE_BF16, .optimiser = OPTIMISER_ADAM
	};
	struct setup s = set_up(cuda_backend(), net, &config, 0);
	auto_free float *a = random_floats(1, net->params), *b = xcalloc(net->params, 4);
	auto_free float *c = random_floats(2, net->states), *d = xcalloc(net->states, 4);

	assert_int_equal(engine_get(s.engine, ENGINE_STATES, d, NULL), 0);
	for (size_t i = 0; i < net->n; i++)
		for (size_t k = 0; k < net->layers[i].states; k++)
			assert_true(
				d[net->layers[i].state_at + k] == (k >= net->layers[i].states / 2));
	for (int i = 0; i < 3; i++) {
		enum engine_block k =
			i ? (enum engine_block)(ENGINE_OPTIMISER + i - 1) : ENGINE_PARAMS;

		assert_int_equal(engine_set(s.engine, k, a, NULL), 0);
		assert_int_equal(engine_get(s.engine, k, b, NULL), 0);
		assert_memory_equal(a, b, net->params * sizeof(float));
	}
	assert_int_equal(engine_set(s.engine, ENGINE_STATES, c, NULL), 0);
	assert_int_equal(engine_get(s.engine, ENGINE_STATES, d, NULL), 0);
	assert_memory_equal(c, d, net->states * sizeof(float));
	assert_true(engine_set(s.engine, ENGINE_GRADS, a, NULL) < 0);
	tear_down(&s);
}

static void an_engine_that_predicts_has_less_memory_and_takes_no_step(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH }, alone = config;
	struct setup trains = set_up(cuda_backend(), net, &config, 0), predicts;
	struct step_result got;
	struct mlr_error err = MLR_ERROR_INIT;

	alone.use = ENGINE_PREDICTS;
	predicts = set_up(cuda_backend(), net, &alone, 0);
	assert_true(
		predicts.engine->memory + 2 * net->params * sizeof(float) < trains.engine->memory);
	compare_logits(&predicts, &trains, BATCH, 1e-6);
	compare_logits(&predicts, &trains, 1, 1e-6);
	assert_true(
		engine_step(predicts.engine, predicts.batches, predicts.steps, 1, &got, &err) < 0);
	assert_non_null(strstr(err.text, "takes no step"));
	tear_down(&trains);
	tear_down(&predicts);
}

static void a_label_beyond_the_classes_is_refused(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH };
	struct setup s = set_up(cuda_backend(), net, &config, 0);
	struct step_result got;
	struct mlr_error err = MLR_ERROR_INIT;

	s.labels[2] = 10;
	assert_int_equal(engine_step(s.engine, s.batches, s.steps, 1, &got, &err), -EINVAL);
	assert_non_null(strstr(err.text, "label 10 of 10 classes"));
	tear_down(&s);
}

#ifndef CUDA_ON_DEVICE

static void steps_after_the_first_call_are_graphs(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH };
	struct setup s = set_up(cuda_backend(), net, &config, 0);
	struct step_result got[STEPS];
	int before;

	take_steps(&s, 0, 1, got);
	before = cuda_fake_graph_launches();
	take_steps(&s, 0, STEPS, got); /* 8 and three times 1 */
	assert_int_equal(cuda_fake_graph_launches() - before, 4);
	tear_down(&s);
}

static void no_device_and_too_little_memory_are_told_with_a_way_out(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH, .threads = 1 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct engine *e = NULL;

	cuda_fake_devices(0);
	assert_int_equal(cuda_backend()->open(net->layers, net->n, &config, &e, &err), -ENODEV);
	assert_non_null(strstr(err.text, "no CUDA-capable device is detected\nhint: nvidia-smi"));
	cuda_fake_devices(1);
	cuda_fake_driver(12040);
	assert_int_equal(cuda_backend()->open(net->layers, net->n, &config, &e, &err), -ENODEV);
	assert_non_null(strstr(err.text, "insufficient"));
	assert_non_null(strstr(
		err.text, "hint: the driver is for CUDA 12.4, this mltrain was made with 13.0"));
	cuda_fake_driver(0);
	assert_int_equal(cuda_backend()->open(net->layers, net->n, &config, &e, &err), -ENODEV);
	assert_non_null(strstr(err.text, "no GPU: "));
	assert_non_null(strstr(err.text, "\nhint: "));
	cuda_fake_driver(13000);
	cuda_fake_memory(1000);
	assert_int_equal(cuda_backend()->open(net->layers, net->n, &config, &e, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "hint: try a smaller --batch than 5"));
	cuda_fake_memory((size_t)-1);
}

/* Whichever of an engine's calls is the first to fail: it is told, and nothing is lost. */
static void every_call_that_fails_is_told_and_nothing_leaks(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	struct engine_config config = { .batch = 2, .threads = 1 };
	size_t left = cuda_fake_left();
	int failures = 0;

	for (int n = 0; n < 400; n += 1 + n / 16) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct engine *e = NULL;
		float logits[8];
		uint8_t images[2 * 60] = { 0 };
		struct batch batch = { .rows = 2, .images = images };
		int r;

		for (int c = 0; c < IMAGE_CHANNELS_MAX; c++)
			config.norm.scale[c] = 1;
		cuda_fake_fail_after(n);
		r = cuda_backend()->open(net->layers, net->n, &config, &e, &err);
		if (r == 0)
			r = engine_predict(e, &batch, logits, &err);
		cuda_fake_fail_after(-1);
		if (r < 0) {
			failures++;
			assert_int_equal(r, -EIO);
			assert_non_null(strstr(err.text, "unspecified launch failure"));
			assert_non_null(strstr(err.text, ", line "));
		}
		engine_close(&e);
		assert_int_equal(cuda_fake_left(), left);
	}
	assert_true(failures > 10);
}

/* Two ranks are threads, and the made-up device serves one at a time: who waits for the other lets
 * it go on. */
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER;

static int unlocked_wait(void *ctx, struct mlr_error *err)
{
	int r;

	pthread_mutex_unlock(&device);
	r = pair_wait(ctx, err);
	pthread_mutex_lock(&device);
	return r;
}

static int unlocked_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	int r;

	pthread_mutex_unlock(&device);
	r = pair_sum(ctx, x, n, err);
	pthread_mutex_lock(&device);
	return r;
}

static int unlocked_broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	int r;

	pthread_mutex_unlock(&device);
	r = pair_broadcast(ctx, x, bytes, err);
	pthread_mutex_lock(&device);
	return r;
}

static int unlocked_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	pthread_mutex_unlock(&device);
	sched_yield();
	pthread_mutex_lock(&device);
	return pair_idle(ctx, turns, err);
}

/* What two ranks of a node see. */
enum gpus {
	GPU_SHARED, /* one GPU, both the same */
	GPU_TWO,    /* two, both the same */
	GPU_OWN,    /* one, each another: srun --gpus-per-task=1 */
};

struct rank {
	struct setup s;
	const struct setup *whole;
	struct engine_config config;
	const struct net *net;
	enum gpus gpus;
	struct step_result got[STEPS];
	int failed;
};

/* A rank has the rows from first on of every batch of the whole. */
static void split(struct setup *part, const struct setup *whole, int first)
{
	for (int i = 0; i < STEPS; i++) {
		size_t from = (size_t)(i * whole->batch + first);
		size_t to = (size_t)(i * part->batch), n = (size_t)part->batch;

		memcpy(part->index + to, whole->index + from, n * sizeof(*part->index));
		memcpy(part->labels + to, whole->labels + from, n * sizeof(*part->labels));
		memcpy(part->augment + to, whole->augment + from, n * sizeof(*part->augment));
		part->batches[i].images = whole->images;
	}
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	int rank = r->config.exchange->rank;

	pthread_mutex_lock(&device);
	cuda_fake_first_device(r->gpus == GPU_OWN ? rank : 0);
	r->s = set_up(cuda_backend(), r->net, &r->config, 1);
	split(&r->s, r->whole, rank * r->config.batch);
	r->failed = engine_step(r->s.engine, r->s.batches, r->s.steps, STEPS, r->got, NULL);
	pthread_mutex_unlock(&device);
	return NULL;
}

static void compare_ranks(struct net *net, enum gpus gpus, int takes_device_memory)
{
	struct engine_config config = { .batch = 6 };
	struct setup one = set_up(&backend_reference, net, &config, 1);
	struct step_result want[STEPS];
	struct rank ranks[2];
	pthread_t thread[2];
	struct pair pair;

	pair_open(&pair);
	cuda_fake_devices(gpus == GPU_TWO ? 2 : 1);
	for (int i = 0; i < 2; i++) {
		pair.rank[i].exchange.wait = unlocked_wait;
		pair.rank[i].exchange.sum = unlocked_sum;
		pair.rank[i].exchange.broadcast = unlocked_broadcast;
		pair.rank[i].exchange.idle = unlocked_idle;
		pair.rank[i].exchange.takes_device_memory = takes_device_memory;
		ranks[i] = (struct rank){ .whole = &one,
			.config = { .batch = 3, .exchange = &pair.rank[i].exchange },
			.net = net,
			.gpus = gpus };
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(ranks[i].failed, 0);
	}
	take_steps(&one, 0, STEPS, want);
	for (int i = 0; i < STEPS; i++) {
		double mean = (ranks[0].got[i].cross_entropy + ranks[1].got[i].cross_entropy) / 2;

		assert_true(fabs(mean / want[i].cross_entropy - 1) < 1e-3);
		assert_int_equal(ranks[0].got[i].wrong + ranks[1].got[i].wrong, want[i].wrong);
		assert_true(ranks[0].got[i].norm2 == ranks[1].got[i].norm2);
	}
	for (int i = 0; i < 2; i++) {
		compare_blocks(&ranks[i].s, &one, 1e-3);
		tear_down(&ranks[i].s);
	}
	tear_down(&one);
	pair_close(&pair);
	cuda_fake_devices(1);
}

static void two_ranks_compute_the_steps_of_one(void **state)
{
	auto_call(net_free) struct net *net = usual_net();

	compare_ranks(net, GPU_SHARED, 0);
	compare_ranks(net, GPU_SHARED, 1);
}

static void two_ranks_share_the_statistics_of_batch_norm(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();

	compare_ranks(net, GPU_SHARED, 0);
}

/* --- NCCL ------------------------------------------------------------------------------------ */

static void ranks_with_a_gpu_each_sum_by_nccl_within_their_graphs(void **state)
{
	auto_call(net_free) struct net *usual = usual_net(), *residual = small_residual_net();
	size_t left = cuda_fake_left();
	int sums, launches;

	nccl_fake_lock(&device);
	sums = nccl_fake_sums();
	compare_ranks(usual, GPU_SHARED, 0);
	assert_int_equal(nccl_fake_sums(), sums);
	for (enum gpus gpus = GPU_TWO; gpus <= GPU_OWN; gpus++) {
		sums = nccl_fake_sums();
		launches = cuda_fake_graph_launches();
		compare_ranks(usual, gpus, 0);
		assert_true(nccl_fake_sums() >= sums + STEPS);
		assert_int_equal(cuda_fake_graph_launches() - launches, 2 * 3); /* 1, 8, 1, 1 */
		compare_ranks(residual, gpus, 0);
	}
	assert_int_equal(nccl_fake_open(), 0);
	assert_int_equal(nccl_fake_aborts(), 0);
	assert_int_equal(cuda_fake_left(), left);
}

static int sum_alone(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	(void)ctx;
	(void)x;
	(void)n;
	(void)err;
	return 0;
}

static int broadcast_alone(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	(void)ctx;
	(void)x;
	(void)bytes;
	(void)err;
	return 0;
}

static int has_ended(void *ctx, unsigned *turns, struct mlr_error *err)
{
	(void)ctx;
	return ++*turns < 3 ? 0 : mlr_fail(err, EIO, "rank 1 on 'node7' (process 9) has ended");
}

/* The other rank was slow. */
static int comes_late(void *ctx, unsigned *turns, struct mlr_error *err)
{
	(void)ctx;
	(void)err;
	if (++*turns == 3)
		cuda_fake_busy(0);
	return 0;
}

static struct setup set_up_alone(struct net *net, struct exchange *x,
	int (*idle)(void *ctx, unsigned *turns, struct mlr_error *err))
{
	struct engine_config config = { .batch = BATCH, .exchange = x };

	*x = (struct exchange){ .ranks = 2,
		.local_ranks = 2,
		.sum = sum_alone,
		.broadcast = broadcast_alone,
		.idle = idle };
	nccl_fake_alone(1);
	return set_up(cuda_backend(), net, &config, 0);
}

static void lose(
	struct net *net, int (*idle)(void *, unsigned *, struct mlr_error *), const char *words)
{
	struct exchange x;
	struct setup s = set_up_alone(net, &x, idle);
	struct step_result got[STEPS];
	struct mlr_error err = MLR_ERROR_INIT;
	int aborts = nccl_fake_aborts();

	assert_int_equal(engine_step(s.engine, s.batches, s.steps, STEPS, got, &err), -EIO);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	assert_int_equal(nccl_fake_aborts() - aborts, 1);
	assert_int_equal(nccl_fake_open(), 0);
	assert_int_equal(engine_step(s.engine, s.batches, s.steps, 1, got, &err), -EIO);
	assert_non_null(strstr(err.text, "the other ranks are gone"));
	tear_down(&s);
}

/* Its sums never come, so that a blocking wait for the stream would last for ever. */
static void a_rank_that_ends_while_gpus_wait_for_it_is_named(void **state)
{
	auto_call(net_free) struct net *usual = usual_net(), *residual = small_residual_net();
	size_t left = cuda_fake_left();

	lose(usual, has_ended, "rank 1 on 'node7' (process 9) has ended");
	lose(residual, has_ended, "rank 1 on 'node7' (process 9) has ended");
	assert_int_equal(cuda_fake_left(), left);
	nccl_fake_alone(0);
}

static void what_nccl_meets_with_meanwhile_is_told(void **state)
{
	auto_call(net_free) struct net *net = usual_net();

	nccl_fake_break(ncclRemoteError);
	lose(net, pair_idle, "NCCL: remote process exited or there was a network error");
	nccl_fake_break(ncclSuccess);
	nccl_fake_alone(0);
}

static void a_rank_that_is_late_is_waited_for(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct exchange x;
	struct setup s = set_up_alone(net, &x, comes_late);
	struct step_result got[STEPS];

	take_steps(&s, 0, STEPS, got);
	take_steps(&s, 0, 1, got);
	nccl_fake_alone(0);
	tear_down(&s);
	assert_int_equal(nccl_fake_open(), 0);
}

/* --- ranks that come and go --- */

#define CROWD      3
#define CROWD_ROWS 7
#define LOST_STEP  4

/* The ranks of one generation, threads that let each other go on by `device`. */
struct crowd {
	int ranks, arrived, broken, losses;
	unsigned long round;
	pthread_cond_t changed;
	double given[CROWD][8];
	char bytes[256];
	struct crowd_rank {
		struct exchange exchange;
		struct crowd *crowd;
	} rank[CROWD];
};

static int crowd_look(struct crowd *c, struct mlr_error *err)
{
	return c->broken ? mlr_fail(err, EIO, "rank 2 on 'node7' (process 9) was lost") : 0;
}

static int crowd_meet(struct crowd *c, struct mlr_error *err)
{
	unsigned long round = c->round;

	if (++c->arrived == c->ranks) {
		c->arrived = 0;
		c->round++;
		pthread_cond_broadcast(&c->changed);
	}
	while (c->round == round && !c->broken)
		pthread_cond_wait(&c->changed, &device);
	return crowd_look(c, err);
}

static int crowd_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct crowd_rank *r = ctx;
	struct crowd *c = r->crowd;

	memcpy(c->given[r->exchange.rank], x, n * sizeof(*x));
	if (crowd_meet(c, err) < 0)
		return -EIO;
	memset(x, 0, n * sizeof(*x));
	for (int i = 0; i < c->ranks; i++)
		for (size_t k = 0; k < n; k++)
			x[k] += c->given[i][k];
	return crowd_meet(c, err);
}

static int crowd_broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct crowd_rank *r = ctx;
	struct crowd *c = r->crowd;

	if (r->exchange.rank == 0)
		memcpy(c->bytes, x, bytes);
	if (crowd_meet(c, err) < 0)
		return -EIO;
	memcpy(x, c->bytes, bytes);
	return crowd_meet(c, err);
}

static int crowd_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	pthread_mutex_unlock(&device);
	sched_yield();
	pthread_mutex_lock(&device);
	++*turns;
	return crowd_look(((struct crowd_rank *)ctx)->crowd, err);
}

static void crowd_lost(void *ctx)
{
	((struct crowd_rank *)ctx)->crowd->losses++;
}

static void crowd_break(struct crowd *c)
{
	c->broken = 1;
	pthread_cond_broadcast(&c->changed);
}

static void crowd_open(struct crowd *c, int ranks)
{
	*c = (struct crowd){ .ranks = ranks, .changed = PTHREAD_COND_INITIALIZER };
	for (int i = 0; i < ranks; i++)
		c->rank[i] = (struct crowd_rank){ { .rank = i,
							  .ranks = ranks,
							  .ctx = &c->rank[i],
							  .sum = crowd_sum,
							  .broadcast = crowd_broadcast,
							  .idle = crowd_idle,
							  .lost = crowd_lost },
			c };
}

/* One that takes part from the first generation on. */
struct elastic_rank {
	struct crowd *generation[2];
	const struct net *net;
	const struct setup *whole;
	int rank;
	struct setup s;
	float *params, *moment, *states, *after[2];
	int failed, refused, differs;
};

static void read_all(struct setup *s, float *params, float *moment)
{
	assert_int_equal(engine_get(s->engine, ENGINE_PARAMS, params, NULL), 0);
	assert_int_equal(engine_get(s->engine, ENGINE_OPTIMISER, moment, NULL), 0);
}

/* Open an engine for this rank's share in a generation, which is not that of all others. */
static void take_place(struct elastic_rank *r, int generation)
{
	struct crowd *c = r->generation[generation];
	int first = CROWD_ROWS * r->rank / c->ranks;
	struct engine_config config = { .batch = CROWD_ROWS * (r->rank + 1) / c->ranks - first,
		.first_row = first,
		.all_rows = CROWD_ROWS,
		.exchange = &c->rank[r->rank].exchange };

	r->s = set_up(cuda_backend(), r->net, &config, 1);
	split(&r->s, r->whole, first);
}

static void step_alone(struct elastic_rank *r, int step, struct mlr_error *err)
{
	struct step_result got;

	r->failed |= engine_step(r->s.engine, &r->s.batches[step], &r->s.steps[step], 1, &got, err);
}

/* The step that fails leaves everything as it was. */
static void lose_a_rank(struct elastic_rank *r)
{
	size_t bytes = r->net->params * sizeof(float);
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(engine_get(r->s.engine, ENGINE_STATES, r->states, NULL), 0);
	read_all(&r->s, r->params, r->moment);
	step_alone(r, LOST_STEP, &err);
	r->refused = r->failed == -EIO && strstr(err.text, "rank 2 on 'node7'");
	r->failed = 0;
	read_all(&r->s, r->after[0], r->after[1]);
	r->differs = memcmp(r->params, r->after[0], bytes) || memcmp(r->moment, r->after[1], bytes);
	tear_down(&r->s);
}

static void *run_elastic_rank(void *arg)
{
	struct elastic_rank *r = arg;

	pthread_mutex_lock(&device);
	cuda_fake_first_device(r->rank);
	take_place(r, 0);
	for (int i = 0; i < LOST_STEP; i++)
		step_alone(r, i, NULL);
	if (r->rank == CROWD - 1) {
		nccl_fake_vanish();
		crowd_break(r->generation[0]);
		tear_down(&r->s); /* as the kernel does */
	} else {
		lose_a_rank(r);
		take_place(r, 1);
		r->failed |= engine_set(r->s.engine, ENGINE_PARAMS, r->params, NULL);
		r->failed |= engine_set(r->s.engine, ENGINE_OPTIMISER, r->moment, NULL);
		r->failed |= engine_set(r->s.engine, ENGINE_STATES, r->states, NULL);
		for (int i = LOST_STEP; i < STEPS; i++)
			step_alone(r, i, NULL);
	}
	pthread_mutex_unlock(&device);
	return NULL;
}

static void lose_one_of_a_crowd(struct net *net)
{
	struct engine_config config = { .batch = CROWD_ROWS };
	struct setup one = set_up(&backend_reference, net, &config, 1);
	struct step_result want[STEPS];
	struct elastic_rank ranks[CROWD];
	pthread_t thread[CROWD];
	struct crowd crowd[2];

	crowd_open(&crowd[0], CROWD);
	crowd_open(&crowd[1], CROWD - 1);
	for (int i = 0; i < CROWD; i++) {
		float *floats = calloc(4 * net->params + net->states + 1, sizeof(*floats));

		ranks[i] = (struct elastic_rank){ { &crowd[0], &crowd[1] }, net, &one, i,
			.params = floats, .moment = floats + net->params,
			.after = { floats + 2 * net->params, floats + 3 * net->params },
			.states = floats + 4 * net->params };
		assert_int_equal(pthread_create(&thread[i], NULL, run_elastic_rank, &ranks[i]), 0);
	}
	take_steps(&one, 0, STEPS, want);
	for (int i = 0; i < CROWD; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(ranks[i].failed, 0);
		assert_int_equal(ranks[i].refused, i < CROWD - 1);
		assert_false(ranks[i].differs);
		if (i < CROWD - 1) {
			compare_blocks(&ranks[i].s, &one, 1e-3);
			tear_down(&ranks[i].s);
		}
		free(ranks[i].params);
	}
	tear_down(&one);
}

static void ranks_go_on_with_a_new_communicator_after_one_has_vanished(void **state)
{
	auto_call(net_free) struct net *usual = usual_net(), *residual = small_residual_net();
	size_t left = cuda_fake_left();
	int sums = nccl_fake_sums();

	nccl_fake_lock(&device);
	lose_one_of_a_crowd(usual);
	lose_one_of_a_crowd(residual);
	assert_true(nccl_fake_sums() >= sums + 2 * STEPS);
	assert_int_equal(nccl_fake_open(), 0);
	assert_int_equal(cuda_fake_left(), left);
}

/* It meets the others, but does not join. */
static void *run_deserter(void *arg)
{
	struct crowd_rank *r = arg;
	double device_id[2] = { 0, 7 }, well = 0;
	char id[sizeof(ncclUniqueId)];

	pthread_mutex_lock(&device);
	crowd_sum(r, device_id, 2, NULL);
	crowd_sum(r, &well, 1, NULL);
	crowd_broadcast(r, id, sizeof(id), NULL);
	crowd_break(r->crowd);
	pthread_mutex_unlock(&device);
	return NULL;
}

static void a_rank_that_vanishes_while_others_join_lets_them_go_on(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct mlr_error err = MLR_ERROR_INIT;
	size_t left = cuda_fake_left();
	struct engine *engine = NULL;
	struct crowd crowd;
	pthread_t thread;

	crowd_open(&crowd, 2);
	nccl_fake_lock(&device);
	assert_int_equal(pthread_create(&thread, NULL, run_deserter, &crowd.rank[1]), 0);
	pthread_mutex_lock(&device);
	assert_int_equal(cuda_backend()->open(net->layers, net->n,
				 &(struct engine_config){
					 .batch = BATCH, .exchange = &crowd.rank[0].exchange },
				 &engine, &err),
		-EIO);
	pthread_mutex_unlock(&device);
	pthread_join(thread, NULL);
	assert_non_null(strstr(err.text, "was lost"));
	assert_null(engine);
	assert_int_equal(nccl_fake_open(), 0);
	assert_int_equal(cuda_fake_left(), left);
}

/* Every rank is alive, but the network between the GPUs is not: the ranks make a new group, and
 * after the third time sum on the host. */
static void what_nccl_alone_has_met_with_breaks_the_generation(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct exchange x;
	struct setup s;
	struct step_result got;
	struct crowd crowd;

	crowd_open(&crowd, 1);
	for (int i = 1; i <= 3; i++) {
		s = set_up_alone(net, &x, pair_idle);
		x.ctx = &crowd.rank[0];
		x.lost = crowd_lost;
		assert_int_equal(nccl_fake_open(), 1);
		nccl_fake_break(ncclRemoteError);
		assert_int_equal(engine_step(s.engine, s.batches, s.steps, 1, &got, NULL), -EIO);
		assert_int_equal(crowd.losses, i);
		assert_int_equal(nccl_fake_open(), 0);
		nccl_fake_break(ncclSuccess);
		tear_down(&s);
	}
	s = set_up_alone(net, &x, pair_idle);
	assert_int_equal(nccl_fake_open(), 0);
	nccl_fake_alone(0);
	tear_down(&s);
}

/* --- the memory plan, overlapping kernels, libraries --------------------------------------- */

static void arrays_share_bytes_only_when_never_used_together(void **state)
{
	struct plan p = { 0 };
	struct rng rng;
	size_t sum = 0;

	rng_init(&rng, 3, RNG_TEST, 0);
	for (int i = 0; i < 200; i++) {
		int from = (int)rng_below(&rng, 100);

		plan_take(&p, i % 2 ? "odd" : "even", rng_below(&rng, 100000), from,
			from + (int)rng_below(&rng, 20));
	}
	plan_place(&p);
	for (size_t i = 0; i < p.n; i++) {
		const struct plan_entry *a = &p.entries[i];

		sum += a->bytes;
		assert_int_equal(a->at % PLAN_ALIGN, 0);
		assert_true(a->at + a->bytes <= p.bytes);
		for (size_t k = 0; k < i; k++) {
			const struct plan_entry *b = &p.entries[k];

			assert_true(a->to < b->from || b->to < a->from ||
				a->at + a->bytes <= b->at || b->at + b->bytes <= a->at);
		}
	}
	assert_true(p.bytes < sum / 2);
	plan_done(&p);
}

static void the_plan_names_what_memory_is_for(void **state)
{
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH };
	struct setup s = set_up(cuda_backend(), net, &config, 0);
	auto_free char *text = cuda_backend()->plan(s.engine);

	assert_non_null(strstr(text, "activations"));
	assert_non_null(strstr(text, "moments"));
	assert_non_null(strstr(text, "in all"));
	tear_down(&s);
}

/* Hopper's kernels overlap, unless a user says no. */
static void kernels_of_a_graph_overlap_where_the_gpu_can_and_the_user_lets_them(void **state)
{
	static const struct {
		int sm;
		const char *told;
		int want;
	} cases[] = { { 90, NULL, 1 }, { 80, NULL, 0 }, { 90, "1", 1 }, { 90, "0", 0 } };
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH };
	struct step_result got[STEPS];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;

		cuda_fake_sm(cases[i].sm);
		if (cases[i].told)
			setenv("MLTRAIN_CUDA_OVERLAP", cases[i].told, 1);
		s = set_up(cuda_backend(), net, &config, 0);
		unsetenv("MLTRAIN_CUDA_OVERLAP");
		take_steps(&s, 0, STEPS, got);
		assert_int_equal(cuda_on_cpu_overlap, cases[i].want);
		tear_down(&s);
	}
	cuda_fake_sm(90);
}

/* A process opens a library once, so that this comes before all other tests. */
static void a_library_that_is_not_there_is_named_with_the_layer_that_wants_it(void **state)
{
	static const struct {
		const char *soname, *layer;
	} cases[] = { { "libcudnn.so.9", "conv1" }, { "libcublasLt.so.13", "fc1" } };
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH, .threads = 1 };
	size_t left = cuda_fake_left();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *want = xasprintf(
			"backend cuda: layer '%s': %s: ", cases[i].layer, cases[i].soname);
		struct mlr_error err = MLR_ERROR_INIT;
		struct engine *e = NULL;

		cuda_fake_without(cases[i].soname);
		assert_int_equal(
			cuda_backend()->open(net->layers, net->n, &config, &e, &err), -ENOENT);
		assert_non_null(strstr(err.text, want));
		assert_int_equal(cuda_fake_left(), left);
	}
	cuda_fake_without(NULL);
}

/* At its first product, within a step, and while a graph is captured. */
static void a_library_that_fails_ends_the_step(void **state)
{
	static const int after[] = { 0, 3, 6, 8 };
	auto_call(net_free) struct net *net = usual_net();
	struct engine_config config = { .batch = BATCH };
	size_t left = cuda_fake_left();

	for (size_t i = 0; i < ARRAY_LEN(after); i++) {
		struct setup s = set_up(cuda_backend(), net, &config, 0);
		struct mlr_error err = MLR_ERROR_INIT;
		struct step_result got[STEPS];

		cublas_lt_fail_after(after[i]);
		assert_int_equal(engine_step(s.engine, s.batches, s.steps, STEPS, got, &err), -EIO);
		assert_non_null(strstr(err.text, "cublasLtMatmul: "));
		cublas_lt_fail_after(-1);
		tear_down(&s);
		assert_int_equal(cuda_fake_left(), left);
	}
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef CUDA_ON_DEVICE
		cmocka_unit_test(a_library_that_is_not_there_is_named_with_the_layer_that_wants_it),
#endif
		cmocka_unit_test(cuda_computes_the_steps_of_reference_on_usual_layers),
		cmocka_unit_test(cuda_computes_the_steps_of_reference_on_odd_sizes),
		cmocka_unit_test(cuda_computes_the_steps_of_reference_on_many_classes),
		cmocka_unit_test(cuda_computes_the_steps_of_reference_on_a_residual_network),
		cmocka_unit_test(cuda_computes_the_steps_of_reference_on_whole_vectors),
		cmocka_unit_test(in_bf16_whole_vectors_are_those_of_reference_within_its_bits),
		cmocka_unit_test(in_tf32_steps_are_those_of_reference_within_its_bits),
		cmocka_unit_test(in_bf16_steps_are_those_of_reference_within_its_bits),
		cmocka_unit_test(in_bf16_a_residual_network_is_that_of_reference_within_its_bits),
		cmocka_unit_test(adam_and_adamw_take_the_steps_of_reference),
		cmocka_unit_test(a_run_repeats_bit_by_bit_however_its_steps_are_cut_into_calls),
		cmocka_unit_test(what_is_set_in_the_gpus_layout_comes_back),
		cmocka_unit_test(an_engine_that_predicts_has_less_memory_and_takes_no_step),
		cmocka_unit_test(a_label_beyond_the_classes_is_refused),
#ifndef CUDA_ON_DEVICE
		cmocka_unit_test(a_library_that_fails_ends_the_step),
		cmocka_unit_test(steps_after_the_first_call_are_graphs),
		cmocka_unit_test(no_device_and_too_little_memory_are_told_with_a_way_out),
		cmocka_unit_test(every_call_that_fails_is_told_and_nothing_leaks),
		cmocka_unit_test(two_ranks_compute_the_steps_of_one),
		cmocka_unit_test(two_ranks_share_the_statistics_of_batch_norm),
		cmocka_unit_test(ranks_with_a_gpu_each_sum_by_nccl_within_their_graphs),
		cmocka_unit_test(a_rank_that_ends_while_gpus_wait_for_it_is_named),
		cmocka_unit_test(what_nccl_meets_with_meanwhile_is_told),
		cmocka_unit_test(a_rank_that_is_late_is_waited_for),
		cmocka_unit_test(ranks_go_on_with_a_new_communicator_after_one_has_vanished),
		cmocka_unit_test(a_rank_that_vanishes_while_others_join_lets_them_go_on),
		cmocka_unit_test(what_nccl_alone_has_met_with_breaks_the_generation),
		cmocka_unit_test(arrays_share_bytes_only_when_never_used_together),
		cmocka_unit_test(the_plan_names_what_memory_is_for),
		cmocka_unit_test(
			kernels_of_a_graph_overlap_where_the_gpu_can_and_the_user_lets_them),
#endif
	};

#ifdef CUDA_ON_DEVICE
	if (backend_find("auto") != &backend_auto && !getenv("MLTRAIN_TEST_GPU")) {
		printf("1..0 # SKIP there is no driver of NVIDIA's, or mltrain-cuda.so was not built\n");
		return 0;
	}
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
