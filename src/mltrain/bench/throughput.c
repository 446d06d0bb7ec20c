#include "bench/throughput.h"

#include "tensor/rng.h"

#define IMAGES     1024 /* different ones, or as many as a batch has */
#define STEPS_MAX  64   /* batches that one call brings */
#define RATE       0.001f
#define IMAGES_MAX ((size_t)4 << 30) /* bytes */

struct bench {
	const struct throughput_wish *wish;
	struct engine *engine;
	uint8_t *images;
	uint16_t *labels;
	uint32_t *index; /* [steps][batch] */
	float *logits;
	int steps; /* of one call */
	uint32_t count;
	uint64_t done; /* steps since the start */
};

static void bench_done(struct bench *b)
{
	engine_close(&b->engine);
	free(b->images);
	free(b->labels);
	free(b->index);
	free(b->logits);
}

static int load_params(struct engine *e, const struct throughput_wish *w, struct mlr_error *err)
{
	auto_free float *params = malloc(w->net->params * sizeof(float));

	if (!params)
		return mlr_fail(err, ENOMEM, "no memory for %zu parameters", w->net->params);
	net_init_params(w->net, w->seed, params);
	return engine_set(e, ENGINE_PARAMS, params, err);
}

int throughput_open(const struct throughput_wish *w, struct engine **ret, struct mlr_error *err)
{
	struct engine_config config = {
		.batch = w->batch, .threads = w->threads, .dtype = w->dtype, .use = w->use
	};
	auto_call(engine_close) struct engine *e = NULL;

	TRY(net_check_batch(w->net, w->batch, err));
	for (int c = 0; c < IMAGE_CHANNELS_MAX; c++) {
		config.norm.mean[c] = 127.5f;
		config.norm.scale[c] = 255;
	}
	TRY(w->backend->open(w->net->layers, w->net->n, &config, &e, err));
	TRY(load_params(e, w, err));
	*ret = take_ptr(&e);
	return 0;
}

static int make_images(struct bench *b, struct mlr_error *err)
{
	size_t pixels = shape_count(&b->wish->net->input);
	size_t bytes = pixels * b->count;
	struct rng rng;

	if (bytes > IMAGES_MAX)
		return mlr_fail(err, ENOMEM, "%u images are %zu bytes, more than the %zu allowed",
			b->count, bytes, IMAGES_MAX);
	b->images = malloc(bytes);
	b->labels = malloc(b->count * sizeof(*b->labels));
	if (!b->images || !b->labels)
		return mlr_fail(err, ENOMEM, "no memory for images: %zu bytes", bytes);
	rng_init(&rng, b->wish->seed, RNG_TEST, 0);
	for (size_t i = 0; i < bytes; i++)
		b->images[i] = (uint8_t)rng_below(&rng, 256);
	for (uint32_t i = 0; i < b->count; i++)
		b->labels[i] = (uint16_t)rng_below(&rng, (uint32_t)b->wish->net->classes);
	return engine_hold(b->engine, b->images, b->count, err);
}

/* Choose each batch's images in random order, as training does. */
static void make_index(struct bench *b)
{
	size_t batch = (size_t)b->wish->batch;
	struct rng rng;

	b->index = xcalloc((size_t)b->steps * batch, sizeof(*b->index));
	rng_init(&rng, b->wish->seed, RNG_SHUFFLE, 0);
	for (size_t i = 0; i < (size_t)b->steps * batch; i++)
		b->index[i] = rng_below(&rng, b->count);
}

static int bench_open(struct bench *b, const struct throughput_wish *w, struct mlr_error *err)
{
	b->wish = w;
	b->count = w->batch > IMAGES ? (uint32_t)w->batch : IMAGES;
	TRY(throughput_open(w, &b->engine, err));
	b->steps = b->engine->steps_at_once;
	if (b->steps < 1 || w->use == ENGINE_PREDICTS)
		b->steps = 1;
	if (b->steps > STEPS_MAX)
		b->steps = STEPS_MAX;
	b->logits = xcalloc((size_t)w->batch * (size_t)w->net->classes, sizeof(*b->logits));
	TRY(make_images(b, err));
	make_index(b);
	return 0;
}

/* Run one call of the engine. */
static int call(struct bench *b, struct mlr_error *err)
{
	struct batch batches[STEPS_MAX];
	struct step steps[STEPS_MAX];
	struct step_result results[STEPS_MAX];
	const struct throughput_wish *w = b->wish;

	for (int i = 0; i < b->steps; i++) {
		batches[i] = (struct batch){ .rows = w->batch,
			.images = b->images,
			.index = b->index + (size_t)i * (size_t)w->batch,
			.labels = b->labels };
		steps[i] = (struct step){
			.lr = RATE, .momentum = 0.9f, .seed = w->seed, .number = b->done++
		};
	}
	if (w->use == ENGINE_PREDICTS)
		return engine_predict(b->engine, batches, b->logits, err);
	return engine_step(b->engine, batches, steps, b->steps, results, err);
}

static int calls(struct bench *b, uint64_t n, double *seconds, struct mlr_error *err)
{
	double start = mlr_now();

	for (uint64_t i = 0; i < n; i++)
		TRY(call(b, err));
	*seconds = mlr_now() - start;
	return 0;
}

/* Find the number of calls that fill a round. The first call only warms the caches. */
static int calibrate(struct bench *b, uint64_t *ret, struct mlr_error *err)
{
	double round = b->wish->seconds / ROUNDS, seconds = 0;

	TRY(calls(b, 1, &seconds, err));
	for (*ret = 1;; *ret *= 2) {
		TRY(calls(b, *ret, &seconds, err));
		if (seconds >= round / 4)
			break;
	}
	if (seconds < round)
		*ret = (uint64_t)((double)*ret * round / seconds) + 1;
	return 0;
}

int throughput_measure(
	const struct throughput_wish *w, struct throughput *ret, struct mlr_error *err)
{
	auto_call(bench_done) struct bench b = { NULL };
	double step[ROUNDS], seconds = 0;
	uint64_t n = 1;

	TRY(bench_open(&b, w, err));
	TRY(calibrate(&b, &n, err));
	for (int i = 0; i < ROUNDS; i++) {
		TRY(calls(&b, n, &seconds, err));
		step[i] = seconds / (double)n / b.steps;
	}
	*ret = (struct throughput){ .step = roofline_spread(step, ROUNDS),
		.steps = n * (uint64_t)b.steps,
		.memory = b.engine->memory };
	if (b.engine->backend->plan)
		ret->plan = b.engine->backend->plan(b.engine);
	return 0;
}

double throughput_flops(const struct throughput_wish *w)
{
	return net_flops(w->net) * w->batch * (w->use == ENGINE_TRAINS ? 3 : 1);
}

/* Count the bytes of one step. The update reads and writes parameters and velocities, and reads
 * gradients after they were written, all floats. Predicting reads the weights once, in its dtype.
 */
double throughput_bytes(const struct throughput_wish *w)
{
	double params = (double)w->net->params;

	if (w->use == ENGINE_TRAINS)
		return params * sizeof(float) * 6;
	return params * (w->dtype == DTYPE_BF16 ? 2 : sizeof(float));
}
