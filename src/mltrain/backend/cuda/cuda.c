/* The plugin mltrain-cuda.so: the backend's table, and engines from their opening to their end. */
#include "backend/cuda/engine.h"

#include "config.h"

#define LAYOUT 0x63756461 /* of gradients: no CPU's */

static const struct backend backend;

static void close_engine(struct engine *e)
{
	struct cuda *c = cuda_of(e);

	if (c->stream)
		reduce_wait(c, NULL);
	cuda_graph_drop(c);
	reduce_close(c);
	for (int i = 0; c->product && i < c->nodes.n; i++)
		product_done(&c->product[i]);
	free(c->product);
	cuda_memory_give(c);
	nodes_done(&c->nodes);
	if (c->stream)
		cudaStreamDestroy(c->stream);
	free(c);
}

static void fill_in(
	struct cuda *c, const struct layer *layers, size_t n, const struct engine_config *config)
{
	c->engine = (struct engine){ .backend = &backend,
		.batch = config->batch,
		.dtype = config->dtype,
		.layout = LAYOUT };
	c->layers = layers;
	c->layer_count = n;
	c->dtype = config->dtype;
	c->trains = config->use == ENGINE_TRAINS;
	c->deterministic = config->deterministic;
	c->optimiser = config->optimiser;
	c->norm = config->norm;
	c->exchange = config->exchange;
	c->ranks = config->exchange ? config->exchange->ranks : 1;
	c->first = (uint64_t)engine_first_row(config);
	c->all_rows = engine_all_rows(config);
	c->pixels = shape_count(&layers[0].in);
	c->classes = layers[n - 1].out.dim[0];
	for (size_t i = 0; i < n; i++)
		c->states += layers[i].states;
}

static int prepare_products(struct cuda *c, struct mlr_error *err)
{
	struct product_limits limits = { c->dtype, c->engine.batch, c->deterministic, WORKSPACE };

	c->product = xcalloc((size_t)c->nodes.n, sizeof(*c->product));
	for (int i = 0; i < c->nodes.n; i++) {
		const struct node *n = &c->nodes.node[i];
		int is_float = c->nodes.tensor[n->y].is_float;
		const int wanted[PRODUCTS] = { [PRODUCT_FORWARD] = 1,
			[PRODUCT_DATA] = c->trains && c->nodes.tensor[n->x].needs,
			[PRODUCT_WEIGHTS] = c->trains };

		for (int k = 0; k < PRODUCTS; k++)
			if (wanted[k] && (n->kind == LAYER_CONV || n->kind == LAYER_DENSE))
				TRY(product_prepare(n, &limits, (enum product_what)k, is_float,
					&c->product[i], err));
	}
	return 0;
}

/* Kernels may overlap from Hopper on; $MLTRAIN_CUDA_OVERLAP=0 keeps them apart. */
static int may_overlap(const struct device *d)
{
	const char *told = getenv("MLTRAIN_CUDA_OVERLAP");

	return d->sm >= 90 && !(told && strcmp(told, "0") == 0);
}

static int start(struct cuda *c, struct mlr_error *err)
{
	TRY(device_take(c->exchange ? c->exchange->local_rank : 0, &c->device, err));
	snprintf(c->engine.device, sizeof(c->engine.device), "%s", c->device.name);
	c->overlaps = may_overlap(&c->device);
	TRY(nodes_make(c->layers, c->layer_count, c->engine.batch, &c->nodes, err));
	CU_TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	TRY(prepare_products(c, err));
	TRY(cuda_memory_take(c, err));
	c->engine.steps_at_once = c->slots;
	TRY(reduce_open(c, err));
	return c->trains ? cuda_parts_set(c, err) : 0;
}

static int set_states(struct cuda *c, struct mlr_error *err)
{
	auto_free float *states = xcalloc(c->states + 1, sizeof(*states));

	for (size_t i = 0; i < c->layer_count; i++) {
		const struct layer *l = &c->layers[i];

		for (size_t k = l->states / 2; k < l->states; k++)
			states[l->state_at + k] = 1; /* variances; the means are 0 */
	}
	return c->states ? cuda_params_set(c, ENGINE_STATES, states, err) : 0;
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct cuda *c;
	int r;

	mlr_log_init("mltrain"); /* the plugin has a copy of base/log.c to itself */
	c = xcalloc(1, sizeof(*c));
	fill_in(c, layers, n, config);
	r = start(c, err);
	if (r == 0)
		r = set_states(c, err);
	if (r < 0) {
		close_engine(&c->engine);
		return r;
	}
	*ret = &c->engine;
	return 0;
}

/* CUDA's device is each thread's own, and an engine may be called by any. */
static int enter(struct cuda *c, struct mlr_error *err)
{
	return CU(cudaSetDevice(c->device.ordinal));
}

static int get(struct engine *e, enum engine_block which, float *to, struct mlr_error *err)
{
	TRY(enter(cuda_of(e), err));
	return cuda_params_get(cuda_of(e), which, to, err);
}

static int set(struct engine *e, enum engine_block which, const float *from, struct mlr_error *err)
{
	TRY(enter(cuda_of(e), err));
	return cuda_params_set(cuda_of(e), which, from, err);
}

static int hold(struct engine *e, const uint8_t *images, size_t count, struct mlr_error *err)
{
	TRY(enter(cuda_of(e), err));
	return cuda_hold(cuda_of(e), images, count, err);
}

static int predict(
	struct engine *e, const struct batch *batch, float *logits, struct mlr_error *err)
{
	struct cuda *c = cuda_of(e);
	const uint8_t *images;
	int altered;

	TRY(enter(c, err));
	TRY(cuda_upload(c, batch, NULL, 1, &images, &altered, err));
	TRY(cuda_graph_run(c, images, altered, 0, err));
	CU_TRY(cudaStreamSynchronize(c->stream));
	memcpy(logits, c->logits_host, (size_t)batch->rows * (size_t)c->classes * sizeof(*logits));
	return 0;
}

/* Up to so many steps as are uploaded at once. Returns how many. */
static int some_steps(struct cuda *c, const struct batch *batches, const struct step *steps, int n,
	struct step_result *ret, struct mlr_error *err)
{
	const uint8_t *images;
	int altered, count = cuda_upload(c, batches, steps, n, &images, &altered, err);

	if (count < 0)
		return count;
	TRY(cuda_graph_run(c, images, altered, count, err));
	CU_TRY(cudaMemcpyAsync(c->result_host, c->result, (size_t)count * sizeof(*c->result),
		cudaMemcpyDeviceToHost, c->stream));
	TRY(reduce_wait(c, err));
	for (int i = 0; i < count; i++)
		ret[i] = (struct step_result){ .cross_entropy = c->result_host[i].cross_entropy,
			.penalty = c->result_host[i].penalty,
			.norm2 = c->result_host[i].norm2,
			.wrong = c->result_host[i].wrong };
	return count;
}

static int step(struct engine *e, const struct batch *batches, const struct step *steps, int n,
	struct step_result *ret, struct mlr_error *err)
{
	struct cuda *c = cuda_of(e);

	if (!c->trains)
		return mlr_fail(
			err, ENOTSUP, "backend cuda: an engine that predicts takes no step");
	if (reduce_is_lost(c))
		return mlr_fail(err, EIO, "backend cuda: the other ranks are gone");
	TRY(enter(c, err));
	TRY(cuda_params_keep(c, KEEP, err));
	for (int done = 0; done < n;) {
		int r = some_steps(c, batches + done, steps + done, n - done, ret + done, err);

		if (r == -EIO) {
			reduce_lose(c);
			cuda_params_keep(c, PUT_BACK, NULL);
		}
		if (r < 0)
			return r;
		done += r;
	}
	return 0;
}

static int ceiling(struct engine *e, int n, struct engine_ceiling *ret, struct mlr_error *err)
{
	TRY(enter(cuda_of(e), err));
	return cuda_ceiling(cuda_of(e), n, ret, err);
}

static char *plan(const struct engine *e)
{
	const struct cuda *c = (const struct cuda *)e;

	return plan_text(&c->plan);
}

static const struct backend backend = {
	.name = "cuda",
	.about = "NVIDIA's GPUs",
	.open = open_engine,
	.close = close_engine,
	.get = get,
	.set = set,
	.hold = hold,
	.predict = predict,
	.step = step,
	.plan = plan,
	.ceiling = ceiling,
};

__attribute__((visibility("default"))) const struct cuda_plugin mltrain_cuda = {
	.plugin = { PACKAGE_VERSION },
	.backend = &backend,
};
