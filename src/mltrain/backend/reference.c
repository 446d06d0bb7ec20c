/*
 * The backend `reference`: the plain loops of ops.h on one thread, for readers and for comparison.
 * Training with it takes about a hundred times as long.
 */
#include "backend/reference.h"

#include "base/base.h"
#include "backend/ops.h"
#include "optimiser/optimiser.h"

static struct reference *own(struct engine *e)
{
	return (struct reference *)e;
}

static void close_engine(struct engine *e)
{
	free(own(e)->block);
	free(own(e)->place);
	free(own(e)->sums);
	free(e);
}

/* --- memory ---------------------------------------------------------------------- */

/* Take the next count floats of the block; if block is NULL, only count them. */
static float *take(float *block, size_t *used, size_t count)
{
	*used += count;
	return block ? block + *used - count : NULL;
}

static void plan_layer(struct reference *r, size_t i, float *block, size_t *used)
{
	const struct layer *l = &r->layers[i];
	struct place *at = &r->place[i];
	size_t count = (size_t)r->engine.batch * shape_count(&l->out);

	at->y = take(block, used, count);
	if (l->kind == LAYER_BATCHNORM) {
		at->mean = take(block, used, l->states / 2);
		at->var = take(block, used, l->states / 2);
	}
	if (l->kind == LAYER_MAXPOOL)
		at->winner = (uint8_t *)take(block, used, (count + 3) / 4);
	if (r->use == ENGINE_PREDICTS)
		return;
	at->dy = take(block, used, count);
	if (l->kind == LAYER_DROPOUT)
		at->mask = take(block, used, count + 3); /* see dropout_forward() */
}

static size_t plan(struct reference *r, float *block)
{
	size_t used = 0, batch = (size_t)r->engine.batch, most = 0;

	r->param = take(block, &used, r->params);
	r->state = take(block, &used, r->states);
	r->input = take(block, &used, batch * shape_count(&r->layers[0].in));
	for (size_t i = 0; i < r->n; i++) {
		plan_layer(r, i, block, &used);
		if (shape_count(&r->layers[i].in) > most)
			most = shape_count(&r->layers[i].in);
	}
	if (r->use == ENGINE_TRAINS) {
		for (int i = 0; i < optimiser_states(r->optimiser); i++)
			r->kept[i] = take(block, &used, r->params);
		r->grad = take(block, &used, r->params);
		r->dx = take(block, &used, batch * most);
	}
	return used;
}

static int allocate(struct reference *r, struct mlr_error *err)
{
	size_t count, sums = 0;

	r->place = xcalloc(r->n, sizeof(*r->place));
	for (size_t i = 0; i < r->n; i++) {
		r->params += r->layers[i].weights + r->layers[i].biases;
		r->states += r->layers[i].states;
		if (r->layers[i].states > sums)
			sums = r->layers[i].states;
	}
	count = plan(r, NULL);
	r->engine.memory = count * sizeof(float) + sums * sizeof(double);
	r->block = calloc(count, sizeof(float));
	r->sums = calloc(sums ? sums : 1, sizeof(double));
	if (!r->block || !r->sums) {
		mlr_fail(err, ENOMEM, "backend reference: there are no %zu bytes of memory",
			r->engine.memory);
		return mlr_hint(err, "try a smaller --batch than %d", r->engine.batch);
	}
	plan(r, r->block);
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = r->layers[i].states / 2; k < r->layers[i].states; k++)
			r->state[r->layers[i].state_at + k] = 1; /* variances */
	return 0;
}

static int open_engine(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct reference *r;
	int failed;

	if (config->dtype != DTYPE_F32)
		return mlr_fail(err, ENOTSUP, "backend reference computes in f32 alone, not in %s",
			dtype_name(config->dtype));
	r = xcalloc(1, sizeof(*r));
	r->engine = (struct engine){ .backend = &backend_reference,
		.batch = config->batch,
		.threads = 1,
		.steps_at_once = 1 };
	r->use = config->use;
	r->optimiser = config->optimiser;
	r->smoothing = config->smoothing;
	r->norm = config->norm;
	r->exchange = config->exchange;
	r->all_rows = engine_all_rows(config);
	r->first_row = engine_first_row(config);
	r->layers = layers;
	r->n = n;
	failed = allocate(r, err);
	if (failed < 0) {
		close_engine(&r->engine);
		return failed;
	}
	*ret = &r->engine;
	return 0;
}

/* Return a block and its size in floats; NULL if this engine has none. */
static float *block_of(struct reference *r, enum engine_block which, size_t *count)
{
	*count = which == ENGINE_STATES ? r->states : r->params;
	switch (which) {
	case ENGINE_PARAMS:
		return r->param;
	case ENGINE_GRADS:
		return r->grad;
	case ENGINE_STATES:
		return r->state;
	case ENGINE_OPTIMISER:
		break;
	}
	return r->kept[which - ENGINE_OPTIMISER];
}

static int no_block(struct mlr_error *err)
{
	return mlr_fail(err, EINVAL,
		"backend reference: an engine that only predicts has no gradients and velocities");
}

static int get(struct engine *e, enum engine_block which, float *to, struct mlr_error *err)
{
	size_t count;
	const float *block = block_of(own(e), which, &count);

	if (!block)
		return no_block(err);
	if (count)
		memcpy(to, block, count * sizeof(float));
	return 0;
}

static int set(struct engine *e, enum engine_block which, const float *from, struct mlr_error *err)
{
	size_t count;
	float *block = block_of(own(e), which, &count);

	if (!block)
		return no_block(err);
	if (count)
		memcpy(block, from, count * sizeof(float));
	return 0;
}

/* --- passes ---------------------------------------------------------------------- */

static int forward(
	struct reference *r, const struct batch *b, const struct step *s, struct mlr_error *err)
{
	const struct shape *in = &r->layers[0].in; /* the first layer reads the images */
	int failed = 0;

	batch_gather(b, in->dim[0], in->dim[1], in->dim[2], &r->norm, 0, b->rows, r->input);
	for (size_t i = 0; i < r->n && failed == 0; i++)
		failed = reference_layer_forward(r, i, b->rows, s, err);
	return failed;
}

/* A layer's gradients are final after its backward function: nothing reads them before wait(). */
static void hand_over(struct reference *r, const struct layer *l)
{
	if (reference_ranks(r) == 1)
		return;
	if (l->weights)
		r->exchange->ready(
			r->exchange->ctx, r->grad + l->weight_at, l->weights + l->biases);
	r->exchange->poll(r->exchange->ctx);
}

/* Run backward from dy of the last layer. All others begin as 0, and each reader adds its part. */
static int backward(struct reference *r, struct mlr_error *err)
{
	for (size_t i = 0; i + 1 < r->n; i++)
		memset(r->place[i].dy, 0,
			(size_t)r->engine.batch * shape_count(&r->layers[i].out) * sizeof(float));
	for (size_t i = r->n; i-- > 0;) {
		const struct layer *l = &r->layers[i];
		size_t count = (size_t)r->engine.batch * shape_count(&l->in);
		float *from = l->from < 0 ? NULL : r->place[l->from].dy;
		int failed = reference_layer_backward(r, i, from ? r->dx : NULL, err);

		if (failed < 0)
			return failed;
		if (from)
			op_add(count, from, r->dx, from);
		if (l->kind == LAYER_ADD && l->with >= 0)
			op_add(count, r->place[l->with].dy, r->place[i].dy, r->place[l->with].dy);
		hand_over(r, l);
	}
	return reference_ranks(r) > 1 ? r->exchange->wait(r->exchange->ctx, err) : 0;
}

static void update(struct reference *r, const struct step *s, struct step_result *ret)
{
	auto_free struct optimiser_part *parts = xcalloc(r->n, sizeof(*parts));
	const struct optimiser *o = &optimisers[r->optimiser];
	struct optimiser_step step = { .parts = parts,
		.param = r->param,
		.grad = r->grad,
		.lr = s->lr,
		.momentum = s->momentum,
		.number = s->number };

	for (size_t i = 0; i < r->n; i++) {
		const struct layer *l = &r->layers[i];
		size_t count = l->weights + l->biases; /* the bias follows the weight */

		if (count)
			parts[step.n++] =
				(struct optimiser_part){ l->weight_at, count, l->decay * s->l2 };
	}
	memcpy(step.state, r->kept, sizeof(step.state));
	optimiser_run(o, o->plain, &step, 0, r->params, &ret->penalty, &ret->norm2);
}

static int one_step(struct reference *r, const struct batch *b, const struct step *s,
	struct step_result *ret, struct mlr_error *err)
{
	struct place *last = &r->place[r->n - 1];
	int classes = r->layers[r->n - 1].out.dim[0], failed;

	failed = forward(r, b, s, err);
	if (failed < 0)
		return failed;
	ret->cross_entropy =
		op_softmax_loss(b->rows, classes, last->y, b->labels, last->dy, &ret->wrong);
	if (r->smoothing > 0)
		ret->cross_entropy += op_smooth_loss(
			b->rows, classes, r->smoothing, last->y, b->labels, last->dy);
	/* The mean is over the rows of all ranks. */
	for (size_t i = 0; reference_ranks(r) > 1 && i < (size_t)b->rows * (size_t)classes; i++)
		last->dy[i] /= (float)r->all_rows / (float)b->rows;
	failed = backward(r, err);
	if (failed < 0)
		return failed;
	update(r, s, ret);
	return 0;
}

static int predict(struct engine *e, const struct batch *b, float *logits, struct mlr_error *err)
{
	struct reference *r = own(e);
	int failed = forward(r, b, NULL, err);

	if (failed < 0)
		return failed;
	memcpy(logits, r->place[r->n - 1].y,
		(size_t)b->rows * shape_count(&r->layers[r->n - 1].out) * sizeof(float));
	return 0;
}

static int step(struct engine *e, const struct batch *batches, const struct step *steps, int n,
	struct step_result *ret, struct mlr_error *err)
{
	if (own(e)->use == ENGINE_PREDICTS)
		return no_block(err);
	for (int i = 0; i < n; i++) {
		int failed = one_step(own(e), &batches[i], &steps[i], &ret[i], err);

		if (failed < 0)
			return mlr_wrap(err, "backend reference: step");
	}
	return 0;
}

const struct backend backend_reference = {
	.name = "reference",
	.about = "plain loops on one thread, to compare with",
	.open = open_engine,
	.close = close_engine,
	.get = get,
	.set = set,
	.predict = predict,
	.step = step,
};
