/*
 * The backend `reference`: the plain loops of ops.h on one thread, for readers and for comparison.
 * Training with it takes about a hundred times as long.
 */
#include "backend/backend.h"

#include "backend/ops.h"
#include "optimiser/optimiser.h"
#include "tensor/rng.h"

/* A layer's arrays in the engine's block of memory. */
struct layer_memory {
	float *y;          /* its output */
	float *dy;         /* gradient of the loss with respect to y: the sum over y's readers */
	float *mask;       /* dropout */
	float *mean, *var; /* batch norm: of the latest forward pass [channels] */
	uint8_t *winner;   /* max-pooling */
};

struct reference {
	struct engine engine; /* first, so that a pointer to one is a pointer to both */
	const struct layer *layers;
	size_t n;
	struct engine_config wish;
	size_t params; /* floats in each of the next blocks */
	float *param, *grad, *kept[OPTIMISER_STATES_MAX];
	size_t states;
	float *state;
	int first_row, all_rows;    /* of the batch of all ranks */
	float *input;               /* [batch][c][h][w] */
	float *dx;                  /* gradient from one reader */
	double *sums;               /* batch norm's, of the current layer, owned */
	struct layer_memory *place; /* [n], owned */
	float *block;               /* everything else, owned */
};

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
	struct layer_memory *at = &r->place[i];
	size_t count = (size_t)r->engine.batch * shape_count(&l->out);

	at->y = take(block, used, count);
	if (l->kind == LAYER_BATCHNORM) {
		at->mean = take(block, used, l->states / 2);
		at->var = take(block, used, l->states / 2);
	}
	if (l->kind == LAYER_MAXPOOL)
		at->winner = (uint8_t *)take(block, used, (count + 3) / 4);
	if (r->wish.use == ENGINE_PREDICTS)
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
	if (r->wish.use == ENGINE_TRAINS) {
		for (int i = 0; i < optimiser_states(r->wish.optimiser); i++)
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
	r->wish = *config;
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

/* --- layers ---------------------------------------------------------------------- */

/* A convolution's sizes, or a dense layer's. */
static struct op_conv conv_of(const struct layer *l, int n)
{
	if (l->kind == LAYER_DENSE)
		return op_dense(n, (int)shape_count(&l->in), l->outputs);
	return (struct op_conv){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->outputs, l->size,
		l->stride, l->pad, l->out.dim[1], l->out.dim[2] };
}

static struct op_pool pool_of(const struct layer *l, int n)
{
	return (struct op_pool){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->size, l->stride,
		l->out.dim[1], l->out.dim[2] };
}

static struct op_norm norm_of(const struct layer *l, int n)
{
	return (struct op_norm){ n, l->in.dim[0], l->in.dim[1] * l->in.dim[2], l->epsilon };
}

static int ranks_of(const struct reference *r)
{
	return r->wish.exchange ? r->wish.exchange->ranks : 1;
}

/* A batch norm's sums, over the ranks unless it is of each one's rows. */
static int sum_over_ranks(struct reference *r, const struct layer *l, struct mlr_error *err)
{
	return ranks_of(r) > 1 && !l->own_rows
		? r->wish.exchange->sum(r->wish.exchange->ctx, r->sums, l->states, err)
		: 0;
}

/* Return the output of a layer, or the images. */
static const float *output_of(const struct reference *r, int which)
{
	return which < 0 ? r->input : r->place[which].y;
}

/* Count the values of a channel in the batch, of all ranks or this one. */
static double norm_count(const struct reference *r, const struct layer *l, const struct op_norm *d)
{
	return (double)(l->own_rows ? d->n : r->all_rows) * d->pixels;
}

static int norm_forward(struct reference *r, size_t i, const float *x, int n,
	const struct step *step, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct layer_memory *at = &r->place[i];
	struct op_norm d = norm_of(l, n);
	float *running_mean = r->state + l->state_at, *running_var = running_mean + d.c;
	const float *gamma = r->param + l->weight_at, *beta = r->param + l->bias_at;

	if (!step) {
		op_norm_forward(&d, x, running_mean, running_var, gamma, beta, at->y);
		return 0;
	}
	op_norm_sums(&d, x, r->sums);
	TRY(sum_over_ranks(r, l, err));
	op_norm_statistics(d.c, norm_count(r, l, &d), r->sums, at->mean, at->var);
	op_norm_track(d.c, norm_count(r, l, &d), l->momentum, at->mean, at->var, running_mean,
		running_var);
	op_norm_forward(&d, x, at->mean, at->var, gamma, beta, at->y);
	return 0;
}

static int norm_backward(
	struct reference *r, size_t i, const float *x, float *dx, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct layer_memory *at = &r->place[i];
	struct op_norm d = norm_of(l, r->engine.batch);

	op_norm_grads(&d, x, at->mean, at->var, at->dy, r->sums);
	for (int c = 0; c < d.c; c++) {
		r->grad[l->bias_at + (size_t)c] = (float)r->sums[c];
		r->grad[l->weight_at + (size_t)c] = (float)r->sums[d.c + c];
	}
	if (!dx)
		return 0;
	TRY(sum_over_ranks(r, l, err));
	op_norm_backward(&d, norm_count(r, l, &d), x, at->mean, at->var, r->param + l->weight_at,
		r->sums, at->dy, dx);
	return 0;
}

/* Random numbers come in fours, but the mask of this rank's rows may begin within one: make the
 * mask from that four on, then move it. */
static void dropout_forward(
	struct reference *r, size_t i, const float *x, int n, const struct step *step)
{
	const struct layer *l = &r->layers[i];
	struct layer_memory *at = &r->place[i];
	size_t count = (size_t)n * shape_count(&l->out);
	uint64_t first = (uint64_t)r->first_row * shape_count(&l->out);
	size_t skew = first % 4;

	if (!step) {
		memcpy(at->y, x, count * sizeof(float));
		return;
	}
	rng_dropout(step->seed, step->number, (uint32_t)i, l->rate, first - skew, at->mask,
		count + skew);
	memmove(at->mask, at->mask + skew, count * sizeof(float));
	op_dropout(count, x, at->mask, at->y);
}

/* Compute the output of layer i for the first n rows; step is NULL in prediction. */
static int layer_forward(
	struct reference *r, size_t i, int n, const struct step *step, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct layer_memory *at = &r->place[i];
	const float *x = output_of(r, l->from), *w = r->param + l->weight_at;
	const float *b = l->biases ? r->param + l->bias_at : NULL;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv = conv_of(l, n);
	struct op_pool pool = pool_of(l, n);

	switch (l->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		op_conv_forward(&conv, x, w, b, at->y);
		break;
	case LAYER_RELU:
		op_relu_forward(count, x, at->y);
		break;
	case LAYER_MAXPOOL:
		op_pool_forward(&pool, x, at->y, at->winner);
		break;
	case LAYER_DROPOUT:
		dropout_forward(r, i, x, n, step);
		break;
	case LAYER_AVGPOOL:
		op_avgpool_forward(&pool, x, at->y);
		break;
	case LAYER_GLOBALPOOL:
		op_globalpool_forward(count, shape_count(&l->in) / (size_t)l->in.dim[0], x, at->y);
		break;
	case LAYER_BATCHNORM:
		return norm_forward(r, i, x, n, step, err);
	case LAYER_ADD:
		op_add(count, x, output_of(r, l->with), at->y);
		break;
	}
	return 0;
}

/* Write the gradient of layer i's input to dx (NULL: not needed), and those of its parameters to
 * their places. LAYER_ADD's is dy itself. */
static int layer_backward(struct reference *r, size_t i, float *dx, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct layer_memory *at = &r->place[i];
	int n = r->engine.batch;
	const float *x = output_of(r, l->from), *w = r->param + l->weight_at;
	float *dw = r->grad + l->weight_at, *db = l->biases ? r->grad + l->bias_at : NULL;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv = conv_of(l, n);
	struct op_pool pool = pool_of(l, n);

	if (l->kind == LAYER_CONV || l->kind == LAYER_DENSE)
		op_conv_backward_weights(&conv, x, at->dy, dw, db);
	if (l->kind == LAYER_BATCHNORM)
		return norm_backward(r, i, x, dx, err);
	if (!dx)
		return 0;
	switch (l->kind) {
	case LAYER_CONV:
	case LAYER_DENSE:
		op_conv_backward_data(&conv, at->dy, w, dx);
		break;
	case LAYER_RELU:
		op_relu_backward(count, at->y, at->dy, dx);
		break;
	case LAYER_MAXPOOL:
		op_pool_backward(&pool, at->dy, at->winner, dx);
		break;
	case LAYER_DROPOUT:
		op_dropout(count, at->dy, at->mask, dx);
		break;
	case LAYER_AVGPOOL:
		op_avgpool_backward(&pool, at->dy, dx);
		break;
	case LAYER_GLOBALPOOL:
		op_globalpool_backward(
			count, shape_count(&l->in) / (size_t)l->in.dim[0], at->dy, dx);
		break;
	case LAYER_ADD:
		memcpy(dx, at->dy, count * sizeof(float));
		break;
	case LAYER_BATCHNORM:
		break;
	}
	return 0;
}

/* --- passes ---------------------------------------------------------------------- */

static int forward(
	struct reference *r, const struct batch *b, const struct step *s, struct mlr_error *err)
{
	const struct shape *in = &r->layers[0].in; /* the first layer reads the images */

	batch_gather(b, in->dim[0], in->dim[1], in->dim[2], &r->wish.norm, 0, b->rows, r->input);
	for (size_t i = 0; i < r->n; i++)
		TRY(layer_forward(r, i, b->rows, s, err));
	return 0;
}

/* A layer's gradients are final after its backward function: nothing reads them before wait(). */
static void hand_over(struct reference *r, const struct layer *l)
{
	if (ranks_of(r) == 1)
		return;
	if (l->weights)
		r->wish.exchange->ready(
			r->wish.exchange->ctx, r->grad + l->weight_at, l->weights + l->biases);
	r->wish.exchange->poll(r->wish.exchange->ctx);
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

		TRY(layer_backward(r, i, from ? r->dx : NULL, err));
		if (from)
			op_add(count, from, r->dx, from);
		if (l->kind == LAYER_ADD && l->with >= 0)
			op_add(count, r->place[l->with].dy, r->place[i].dy, r->place[l->with].dy);
		hand_over(r, l);
	}
	return ranks_of(r) > 1 ? r->wish.exchange->wait(r->wish.exchange->ctx, err) : 0;
}

static void update(struct reference *r, const struct step *s, struct step_result *ret)
{
	auto_free struct optimiser_part *parts = xcalloc(r->n, sizeof(*parts));
	const struct optimiser *o = &optimisers[r->wish.optimiser];
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
	struct layer_memory *last = &r->place[r->n - 1];
	int classes = r->layers[r->n - 1].out.dim[0];

	TRY(forward(r, b, s, err));
	ret->cross_entropy =
		op_softmax_loss(b->rows, classes, last->y, b->labels, last->dy, &ret->wrong);
	if (r->wish.smoothing > 0)
		ret->cross_entropy += op_smooth_loss(
			b->rows, classes, r->wish.smoothing, last->y, b->labels, last->dy);
	/* The mean is over the rows of all ranks. */
	for (size_t i = 0; ranks_of(r) > 1 && i < (size_t)b->rows * (size_t)classes; i++)
		last->dy[i] /= (float)r->all_rows / (float)b->rows;
	TRY(backward(r, err));
	update(r, s, ret);
	return 0;
}

static int predict(struct engine *e, const struct batch *b, float *logits, struct mlr_error *err)
{
	struct reference *r = own(e);

	TRY(forward(r, b, NULL, err));
	memcpy(logits, r->place[r->n - 1].y,
		(size_t)b->rows * shape_count(&r->layers[r->n - 1].out) * sizeof(float));
	return 0;
}

static int step(struct engine *e, const struct batch *batches, const struct step *steps, int n,
	struct step_result *ret, struct mlr_error *err)
{
	if (own(e)->wish.use == ENGINE_PREDICTS)
		return no_block(err);
	for (int i = 0; i < n; i++)
		if (one_step(own(e), &batches[i], &steps[i], &ret[i], err) < 0)
			return mlr_wrap(err, "backend reference: step");
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
