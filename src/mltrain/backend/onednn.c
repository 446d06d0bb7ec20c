/*
 * The backend `onednn`: convolutions and dense layers by oneDNN, the rest by loops of ours. Where a
 * convolution can be done by winograd.h or imageconv.c, that is faster than oneDNN's.
 *
 * Parameters, their gradients and what the optimiser keeps are blocks of the same layout, so that
 * the update is one pass. All memory is one block, planned when the engine is made.
 */

#include "backend/onednn_node.h"
#include "backend/ops.h"
#include "backend/parallel.h"
#include "tensor/wide.h"

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define BUCKET    ((size_t)1 << 20) /* floats of gradients that are worth telling the ranks of */

struct onednn {
	struct engine engine; /* first, so that one pointer serves both */
	struct node_world world;
	struct node *nodes; /* [n_nodes], owned */
	size_t n_nodes;
	size_t n_params, n_states;
	size_t shared;                /* bytes that nodes use one after the other */
	float *canonical, *folded;    /* of an engine that only predicts */
	struct optimiser_part *parts; /* [n_parts], owned */
	size_t n_parts;
	void *block; /* owned */
};

static struct onednn *own(struct engine *e)
{
	return (struct onednn *)e;
}

/* The number of threads belongs to the thread that calls, which need not be the one that opened. */
static struct onednn *enter(struct engine *e)
{
	parallel_init(e->threads);
	return own(e);
}

static void close_engine(struct engine *e)
{
	struct onednn *o = own(e);

	for (size_t i = 0; i < o->n_nodes; i++)
		node_done(&o->nodes[i]);
	free(o->nodes);
	dnn_done(&o->world.dnn);
	free(o->block);
	free(o->parts);
	free(o);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* Floats of the largest layer that has batch norm behind as part of it. */
static size_t largest_fold(const struct onednn *o)
{
	size_t most = 0;

	for (size_t i = 0; i < o->n_nodes; i++) {
		const struct node *d = &o->nodes[i];

		if (d->norm_behind && d->layer->weights + d->biases > most)
			most = d->layer->weights + d->biases;
	}
	return most;
}

/* Share out the block, or with NULL only count its bytes. */
static size_t plan(struct onednn *o, void *block)
{
	struct node_world *w = &o->world;
	struct plan p = { block, 0 };
	size_t scratch = 0, spare = 0;
	size_t image = (size_t)w->batch * shape_count(&o->nodes[0].layer->in);

	w->param = node_plan_take(&p, w->params * sizeof(float));
	w->master = w->param;
	if (w->trains && w->rounds)
		w->master = node_plan_take(&p, w->params * sizeof(float));
	if (w->trains) {
		for (int i = 0; i < optimiser_states(w->wish.optimiser); i++)
			w->kept[i] = node_plan_take(&p, w->params * sizeof(float));
		w->grad = node_plan_take(&p, w->params * sizeof(float));
	} else {
		o->canonical = node_plan_take(&p, o->n_params * sizeof(float));
		o->folded = node_plan_take(&p, largest_fold(o) * sizeof(float));
	}
	w->states = node_plan_take(&p, o->n_states * sizeof(float));
	w->pixels = node_plan_take(&p, image * sizeof(float));
	w->input = w->pixels;
	if (w->bf16 && w->input_is_read)
		w->input = node_plan_take(&p, image * sizeof(uint16_t));
	for (size_t i = 0; i < o->n_nodes; i++) {
		size_t before = p.used;

		node_plan(&o->nodes[i], w, &p);
		o->nodes[i].bytes = p.used - before;
		if (node_scratch(&o->nodes[i], &o->world) > scratch)
			scratch = node_scratch(&o->nodes[i], &o->world);
		if (node_spare(&o->nodes[i]) > spare)
			spare = node_spare(&o->nodes[i]);
	}
	w->scratch = node_plan_take(&p, scratch);
	w->spare = node_plan_take(&p, spare);
	o->shared = scratch + spare;
	return p.used;
}

/* A line a node, and what they share. */
static char *plan_text(const struct engine *e)
{
	const struct onednn *o = (const struct onednn *)e;
	const struct node_world *w = &o->world;
	size_t each = w->params * sizeof(float), len;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fprintf(f, "%10zu KiB  parameters%s%s\n", each * (w->trains ? w->rounds ? 4 : 3 : 1) / 1024,
		w->trains ? ", their velocities and gradients" : "",
		w->trains && w->rounds ? ", and the rounded ones" : "");
	for (size_t i = 0; i < o->n_nodes; i++) {
		const struct node *d = &o->nodes[i];

		fprintf(f, "%10zu KiB  %s (%s%s%s%s)\n", d->bytes / 1024, d->layer->name,
			d->kind->name, d->norm_behind ? ", batch norm" : "",
			d->relu && d->layer->kind != LAYER_RELU ? ", ReLU" : "",
			d->pool ? ", pooling" : "");
	}
	fprintf(f, "%10zu KiB  to work in, one layer after the other\n", o->shared / 1024);
	fprintf(f, "%10zu KiB  in all\n", e->memory / 1024);
	fclose(f);
	return text;
}

static int allocate(struct onednn *o, struct mlr_error *err)
{
	size_t bytes = (plan(o, NULL) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

	o->block = aligned_alloc(HUGE_PAGE, bytes);
	if (!o->block) {
		mlr_fail(err, ENOMEM, "there are no %zu bytes of memory", bytes);
		return mlr_hint(err, "try a smaller --batch than %d", o->engine.batch);
	}
	madvise(o->block, bytes, MADV_HUGEPAGE); /* fewer TLB misses where it works */
	memset(o->block, 0, bytes);
	o->engine.memory = plan(o, o->block);
	for (size_t i = 0; i < o->n_nodes; i++)
		TRY(node_bind(&o->nodes[i], &o->world, err));
	return 0;
}

/* --- parameters ------------------------------------------------------------------------------ */

static void make_parts(struct onednn *o)
{
	o->parts = xcalloc(o->n_nodes, sizeof(*o->parts));
	for (size_t i = 0; i < o->n_nodes; i++)
		if (o->nodes[i].count)
			o->parts[o->n_parts++] =
				(struct optimiser_part){ o->nodes[i].at, o->nodes[i].count };
}

static void init_states(struct onednn *o, const struct layer *layers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = layers[i].states / 2; k < layers[i].states; k++)
			o->world.states[layers[i].state_at + k] = 1;
}

/* NULL where there is no such block. */
static float *block_of(struct onednn *o, enum engine_block which)
{
	const struct node_world *w = &o->world;

	return which == ENGINE_PARAMS   ? w->master
		: which == ENGINE_GRADS ? w->grad
					: w->kept[which - ENGINE_OPTIMISER];
}

static int no_block(struct mlr_error *err)
{
	return mlr_fail(
		err, EINVAL, "backend onednn: an engine that only predicts has no gradients");
}

static int get(struct engine *e, enum engine_block which, float *to, struct mlr_error *err)
{
	struct onednn *o = enter(e);

	if (which == ENGINE_STATES) {
		memcpy(to, o->world.states, o->n_states * sizeof(float));
		return 0;
	}
	if (!block_of(o, which))
		return no_block(err);
	if (!o->world.trains) {
		memcpy(to, o->canonical, o->n_params * sizeof(float));
		return 0;
	}
	for (size_t i = 0; i < o->n_nodes; i++)
		node_get(&o->nodes[i], &o->world, block_of(o, which), to);
	return 0;
}

/* Give the weights bf16's bits. Biases and what batch norm learns keep theirs, as in bf16. */
static void round_weights(struct onednn *o)
{
	const struct node_world *w = &o->world;

	for (size_t i = 0; i < o->n_nodes; i++) {
		const struct node *d = &o->nodes[i];
		size_t weights = d->layer->kind == LAYER_BATCHNORM ? 0 : d->bias_at - d->at;

		if (!d->count)
			continue;
		kernel_round_to_bf16(weights, w->master + d->at, w->param + d->at);
		memmove(w->param + d->at + weights, w->master + d->at + weights,
			(d->count - weights) * sizeof(float));
	}
}

static void renew(struct onednn *o)
{
	if (o->world.rounds)
		round_weights(o);
	for (size_t i = 0; i < o->n_nodes; i++)
		if (o->nodes[i].kind->renew)
			o->nodes[i].kind->renew(&o->nodes[i], &o->world);
}

/* Fill a block from a canonical one, whose batch norms may be parts of other nodes. */
static void fill_block(struct onednn *o, float *block, const float *from)
{
	for (size_t i = 0; i < o->n_nodes; i++) {
		struct node *d = &o->nodes[i];
		const float *weights = from + d->layer->weight_at, *bias = from + d->layer->bias_at;

		if (d->norm_behind) {
			weights = o->folded;
			bias = o->folded + d->layer->weights;
			node_fold(
				d, from, o->world.states, o->folded, o->folded + d->layer->weights);
		}
		node_set(d, &o->world, block, weights, bias);
	}
}

static int set(struct engine *e, enum engine_block which, const float *from, struct mlr_error *err)
{
	struct onednn *o = enter(e);

	if (which != ENGINE_STATES && !block_of(o, which))
		return no_block(err);
	if (which == ENGINE_STATES)
		memcpy(o->world.states, from, o->n_states * sizeof(float));
	else if (!o->world.trains)
		memcpy(o->canonical, from, o->n_params * sizeof(float));
	else
		fill_block(o, block_of(o, which), from);
	if (!o->world.trains)
		fill_block(o, o->world.master, o->canonical);
	renew(o);
	return 0;
}

/* A hash (FNV-1a) of where each parameter lies: what becomes of 0, 1, 2, … in the blocks' order. */
static int hash_layout(struct onednn *o, uint64_t *ret, struct mlr_error *err)
{
	size_t params = o->n_params;
	auto_free float *ramp = malloc((params ? params : 1) * sizeof(*ramp));
	const uint32_t *word = (const uint32_t *)o->world.master;
	uint64_t hash = 0xcbf29ce484222325;

	if (!ramp)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for the layout of parameters",
			params * sizeof(*ramp));
	for (size_t i = 0; i < params; i++)
		ramp[i] = (float)(i % (1 << 24));
	fill_block(o, o->world.master, ramp);
	for (size_t i = 0; i < o->world.params; i++)
		hash = (hash ^ word[i]) * 0x100000001b3;
	memset(o->world.master, 0, o->world.params * sizeof(float));
	*ret = hash;
	return 0;
}

/* --- opening --------------------------------------------------------------------------------- */

static int check_dtype(enum dtype dtype, struct mlr_error *err)
{
	if (dtype == DTYPE_F32 || dtype == DTYPE_BF16)
		return 0;
	mlr_fail(err, ENOTSUP, "%s is not possible on this CPU", dtype_name(dtype));
	return mlr_hint(err, "tf32 is for NVIDIA's GPUs; f32 and bf16 work here");
}

/* Choose how to compute in bf16; say once if it is not faster than f32 here. */
static void choose_bf16(struct node_world *w)
{
	static int said;

	w->bf16 = dnn_has_bf16();
	w->rounds = !w->bf16;
	if (w->bf16 || said++ || (w->wish.exchange && w->wish.exchange->rank > 0))
		return;
	mlr_info("bf16 without AVX512_BF16 or AMX: computing in f32 with weights rounded to bf16, "
		 "as fast as f32");
}

static int make_nodes(struct onednn *o, const struct layer *layers, size_t n, struct mlr_error *err)
{
	auto_call(graph_close) struct graph graph;
	struct graph_node plan;

	graph_open(&graph, layers, n);
	o->world.nodes = o->nodes = xcalloc(n, sizeof(*o->nodes));
	while (graph_next(&graph, node_takes, &o->world, &plan))
		TRY(node_make(&o->nodes[o->n_nodes++], &plan, &o->world, err));
	return 0;
}

static int make_engine(struct onednn *o, const struct layer *layers, size_t n,
	const struct engine_config *config, struct mlr_error *err)
{
	TRY(check_dtype(config->dtype, err));
	TRY(dnn_init(&o->world.dnn, o->engine.threads, err));
	TRY(make_nodes(o, layers, n, err));
	for (size_t i = 0; i < n; i++) {
		o->n_params += layers[i].weights + layers[i].biases;
		o->n_states += layers[i].states;
	}
	TRY(allocate(o, err));
	make_parts(o);
	init_states(o, layers, n);
	return o->world.trains ? hash_layout(o, &o->engine.layout, err) : 0;
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct onednn *o = xcalloc(1, sizeof(*o));
	int threads = config->threads < KERNELS_THREADS_MAX ? config->threads : KERNELS_THREADS_MAX;
	int r;

	o->engine = (struct engine){ .backend = &backend_onednn,
		.batch = config->batch,
		.threads = threads,
		.dtype = config->dtype,
		.steps_at_once = 1 };
	o->world.wish = *config;
	o->world.trains = config->use == ENGINE_TRAINS;
	o->world.ranks = config->exchange ? config->exchange->ranks : 1;
	o->world.first_row = engine_first_row(config);
	o->world.all_rows = engine_all_rows(config);
	o->world.lanes = lanes_find();
	o->engine.isa = dnn_isa_name(dnn_isa());
	o->world.batch = config->batch;
	o->world.threads = threads;
	if (config->dtype == DTYPE_BF16)
		choose_bf16(&o->world);
	r = make_engine(o, layers, n, config, err);
	if (r < 0) {
		close_engine(&o->engine);
		return mlr_wrap(err, "backend onednn");
	}
	*ret = &o->engine;
	return 0;
}

/* --- computing ------------------------------------------------------------------------------- */

struct gather {
	struct onednn *o;
	const struct batch *batch;
};

static void gather_in_thread(void *ctx, int me, int of)
{
	struct gather *g = ctx;
	struct onednn *o = g->o;
	const struct shape *in = &o->nodes[0].layer->in;
	size_t rows = (size_t)g->batch->rows, n = shape_count(in);
	int to = (int)parallel_from(rows, 1, me + 1, of);

	for (int i = (int)parallel_from(rows, 1, me, of); i < to; i++) {
		batch_gather(g->batch, in->dim[0], in->dim[1], in->dim[2], &o->world.wish.norm, i,
			i + 1, o->world.pixels);
		if (o->world.input != o->world.pixels)
			kernel_to_bf16(n, o->world.pixels + (size_t)i * n,
				(uint16_t *)o->world.input + (size_t)i * n);
	}
}

static void fill(struct onednn *o, const struct batch *b)
{
	struct gather g = { o, b };

	if (b->rows == 1)
		gather_in_thread(&g, 0, 1);
	else
		parallel_run(gather_in_thread, &g);
}

static int forward(struct onednn *o, const struct step *s, struct mlr_error *err)
{
	o->world.step = s;
	for (size_t i = 0; i < o->n_nodes; i++)
		TRY(o->nodes[i].kind->forward(&o->nodes[i], &o->world, err));
	return 0;
}

/* The primitives are made for whole batches; rows beyond the batch's are nobody's. */
static int predict(struct engine *e, const struct batch *b, float *logits, struct mlr_error *err)
{
	struct onednn *o = enter(e);
	const struct node *last = &o->nodes[o->n_nodes - 1];

	o->world.rows = b->rows;
	fill(o, b);
	TRY(forward(o, NULL, err));
	memcpy(logits, last->y, (size_t)b->rows * shape_count(&last->layer->out) * sizeof(float));
	return 0;
}

/* The gradients behind node d are final, those up to *end were told before: tell the ranks when
 * that is a bucketful, or all. */
static void tell_ready(struct onednn *o, const struct node *d, size_t *end)
{
	const struct exchange *x = o->world.wish.exchange;

	if (!x || x->plain)
		return;
	if (d->count && (d->at == 0 || *end - d->at >= BUCKET)) {
		x->ready(x->ctx, o->world.grad + d->at, *end - d->at);
		*end = d->at;
	}
	x->poll(x->ctx);
}

/* Sum the gradients over ranks whose layouts differ. */
static int sum_plain(struct onednn *o, struct mlr_error *err)
{
	const struct exchange *x = o->world.wish.exchange;
	auto_free float *plain = malloc(o->n_params * sizeof(*plain));

	if (!plain)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for gradients",
			o->n_params * sizeof(*plain));
	for (size_t i = 0; i < o->n_nodes; i++)
		node_get(&o->nodes[i], &o->world, o->world.grad, plain);
	x->ready(x->ctx, plain, o->n_params);
	TRY(x->wait(x->ctx, err));
	fill_block(o, o->world.grad, plain);
	return 0;
}

static int backward(struct onednn *o, struct mlr_error *err)
{
	const struct exchange *x = o->world.wish.exchange;
	size_t end = o->world.params;

	for (size_t i = o->n_nodes; i-- > 0;) {
		TRY(node_backward(&o->nodes[i], &o->world, err));
		tell_ready(o, &o->nodes[i], &end);
	}
	if (x && x->plain)
		return sum_plain(o, err);
	return x ? x->wait(x->ctx, err) : 0;
}

struct update_call {
	const struct optimiser *optimiser;
	struct optimiser_step step;
	size_t total;
	double penalty[KERNELS_THREADS_MAX], norm2[KERNELS_THREADS_MAX];
};

/* The shares are cut through the whole block, whatever parts they fall into. */
static void update_in_thread(void *ctx, int me, int of)
{
	struct update_call *c = ctx;

	optimiser_run(c->optimiser, c->optimiser->wide, &c->step,
		parallel_from(c->total, WIDE_LANES, me, of),
		parallel_from(c->total, WIDE_LANES, me + 1, of), &c->penalty[me], &c->norm2[me]);
}

static void update(struct onednn *o, const struct step *s, struct step_result *ret)
{
	const struct node_world *w = &o->world;
	struct update_call c = { .optimiser = &optimisers[w->wish.optimiser],
		.step = { .parts = o->parts,
			.n = o->n_parts,
			.param = w->master,
			.grad = w->grad,
			.lr = s->lr,
			.momentum = s->momentum,
			.number = s->number } };
	size_t k = 0;

	memcpy(c.step.state, w->kept, sizeof(c.step.state));
	for (size_t i = 0; i < o->n_nodes; i++)
		if (o->nodes[i].count)
			o->parts[k++].l2 = o->nodes[i].layer->decay * s->l2;
	for (k = 0; k < o->n_parts; k++)
		c.total = o->parts[k].at + o->parts[k].count;
	parallel_run(update_in_thread, &c);
	ret->penalty = ret->norm2 = 0;
	for (int i = 0; i < KERNELS_THREADS_MAX; i++) {
		ret->penalty += c.penalty[i];
		ret->norm2 += c.norm2[i];
	}
	renew(o);
}

/* The loss is the mean over all ranks' rows. */
static void loss(struct onednn *o, const struct batch *b, struct step_result *ret)
{
	struct node *last = &o->nodes[o->n_nodes - 1];
	float *dy = last->dy;
	int classes = last->layer->out.dim[0];

	ret->cross_entropy = op_softmax_loss(b->rows, classes, last->y, b->labels, dy, &ret->wrong);
	if (o->world.wish.smoothing > 0)
		ret->cross_entropy += op_smooth_loss(
			b->rows, classes, o->world.wish.smoothing, last->y, b->labels, dy);
	for (int i = 0; o->world.ranks > 1 && i < b->rows * classes; i++)
		dy[i] /= (float)o->world.all_rows / (float)b->rows;
}

static int one_step(struct onednn *o, const struct batch *b, const struct step *s,
	struct step_result *ret, struct mlr_error *err)
{
	o->world.rows = b->rows;
	fill(o, b);
	TRY(forward(o, s, err));
	loss(o, b, ret);
	TRY(backward(o, err));
	update(o, s, ret);
	return 0;
}

static int step(struct engine *e, const struct batch *batches, const struct step *steps, int n,
	struct step_result *ret, struct mlr_error *err)
{
	struct onednn *o = enter(e);

	if (!o->world.trains)
		return mlr_fail(err, EINVAL, "backend onednn: this engine only predicts");
	for (int i = 0; i < n; i++)
		TRY(one_step(o, &batches[i], &steps[i], &ret[i], err));
	return 0;
}

const struct backend backend_onednn = {
	.name = "onednn",
	.about = "oneDNN on all cores",
	.open = open_engine,
	.close = close_engine,
	.get = get,
	.set = set,
	.predict = predict,
	.step = step,
	.plan = plan_text,
	.ceiling = onednn_ceiling,
};
