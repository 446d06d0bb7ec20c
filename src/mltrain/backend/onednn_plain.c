/*
 * Nodes that loops of ours compute: ReLU, pooling, dropout, batch norm, sums.
 */
#include "backend/onednn_node.h"

/* An input as loops of ours see it. */
static struct kernel_image image_in(const struct node *d, const struct node_world *w)
{
	const struct shape *s = &d->layer->in;

	if (d->from[0])
		return d->from[0]->image;
	return (struct kernel_image){ w->batch, s->dim[0], s->dim[1], s->dim[2], 1, w->bf16 };
}

static int make_alike(struct node *d, struct node_world *w, struct mlr_error *err)
{
	d->format = node_in(d, w, 0);
	return 0;
}

/* --- ReLU ------------------------------------------------------------------------------------ */

static int relu_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	kernel_relu_forward(node_rows(d, w), node_x(d, w, 0), d->y, w->bf16);
	return 0;
}

/* The gradient has passed already. */
static int relu_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	void *dx = node_dx(d, w, 0);

	if (dx)
		kernel_convert(node_count(d), d->dy, w->bf16, dx, w->bf16);
	return 0;
}

const struct node_kind node_kind_relu = {
	.name = "ReLU", .make = make_alike, .forward = relu_forward, .backward = relu_backward
};

/* --- pooling --------------------------------------------------------------------------------- */

static int pool_make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	struct dnn_format in = node_in(d, w, 0);
	int dims[4] = { 0 };

	d->pooling = (struct pooling){ image_in(d, w), l->size, l->stride, l->out.dim[1],
		l->out.dim[2], l->kind == LAYER_AVGPOOL };
	node_batch_dims(w->batch, &l->out, dims);
	d->format = dnn_format_like(&in, dims);
	if (d->from[0])
		d->from[0]->pooled = d->from[0]->readers == 1 && pooling_is_plain(&d->pooling);
	return 0;
}

static int pool_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct pooling l = d->pooling;

	l.x.n = w->rows;
	pooling_forward(&l, node_x(d, w, 0), d->y);
	return 0;
}

static int pool_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	void *x = node_x(d, w, 0), *dx = node_dx(d, w, 0);

	if (dx == x)
		pooling_backward_in_place(&d->pooling, d->from[0]->relu, d->dy, x);
	else if (dx)
		pooling_backward(&d->pooling, x, d->dy, dx);
	return 0;
}

const struct node_kind node_kind_pool = {
	.name = "pooling", .make = pool_make, .forward = pool_forward, .backward = pool_backward
};

static int global_make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	d->pooling.x = image_in(d, w);
	d->format = node_plain_format(w, &d->layer->out);
	return 0;
}

static int global_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct kernel_image x = d->pooling.x;

	x.n = w->rows;
	pooling_global_forward(&x, node_x(d, w, 0), d->y);
	return 0;
}

static int global_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	void *dx = node_dx(d, w, 0);

	if (dx)
		pooling_global_backward(&d->pooling.x, d->dy, dx);
	return 0;
}

const struct node_kind node_kind_global = { .name = "global pooling",
	.make = global_make,
	.forward = global_forward,
	.backward = global_backward };

/* --- dropout --------------------------------------------------------------------------------- */

static void dropout_plan(struct node *d, const struct node_world *w, struct plan *p)
{
	size_t count = (size_t)w->batch * shape_count(&d->layer->out);

	if (!w->trains) { /* the identity: y is x */
		d->y = node_x(d, w, 0);
		return;
	}
	d->dropout.image = d->image;
	d->dropout.rate = d->layer->rate;
	d->dropout.bits = node_plan_take(p, (count + 15) / 16 * sizeof(*d->dropout.bits));
}

static int dropout_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	uint64_t first = (uint64_t)w->first_row * shape_count(&d->layer->out);

	if (!w->step) {
		if (w->trains)
			kernel_convert(node_rows(d, w), node_x(d, w, 0), w->bf16, d->y, w->bf16);
		return 0;
	}
	kernel_dropout_draw(&d->dropout, w->step->seed, w->step->number, (uint32_t)d->index, first);
	kernel_dropout_apply(&d->dropout, node_x(d, w, 0), d->y);
	return 0;
}

static int dropout_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	void *dx = node_dx(d, w, 0);

	if (dx)
		kernel_dropout_apply(&d->dropout, d->dy, dx);
	return 0;
}

const struct node_kind node_kind_dropout = { .name = "dropout",
	.make = make_alike,
	.plan = dropout_plan,
	.forward = dropout_forward,
	.backward = dropout_backward };

/* --- batch norm ------------------------------------------------------------------------------ */

static int norm_make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	int dims[4] = { 0 }, rank = node_weight_dims(d->layer, dims);

	d->weights = dnn_format_plain(rank, dims);
	return make_alike(d, w, err);
}

static void norm_plan(struct node *d, const struct node_world *w, struct plan *p)
{
	struct norm *l = &d->norm;
	size_t n;

	l->x = d->image;
	l->relu = d->relu;
	l->epsilon = d->layer->epsilon;
	n = norm_channels(l);
	l->mean = node_plan_take(p, n * sizeof(float));
	l->inverse = node_plan_take(p, n * sizeof(float));
	l->scale = node_plan_take(p, n * sizeof(float));
	l->shift = node_plan_take(p, n * sizeof(float));
	l->sums = node_plan_take(p, 2 * n * sizeof(double));
	l->partial = node_plan_take(p, (size_t)w->threads * 2 * n * sizeof(double));
}

/* How many batches like this rank's are normalised together: all ranks', or this one. */
static double shares(const struct node *d, const struct node_world *w)
{
	return d->layer->own_rows ? 1 : (double)w->all_rows / w->batch;
}

static int sum_over_ranks(
	const struct node *d, struct node_world *w, const struct norm *l, struct mlr_error *err)
{
	const struct exchange *e = d->layer->own_rows ? NULL : w->wish.exchange;

	return e ? e->sum(e->ctx, l->sums, 2 * norm_channels(l), err) : 0;
}

static int norm_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct norm rows = d->norm, *l = &rows;
	const float *gamma = w->param + d->at, *beta = w->param + d->bias_at;
	float *running = w->states + d->layer->state_at;

	if (w->step) {
		norm_sum(l, node_x(d, w, 0), w->threads);
		for (size_t k = 0; w->ranks > 1 && k < 2 * norm_channels(l); k++)
			l->sums[k] /= shares(d, w);
		TRY(sum_over_ranks(d, w, l, err));
		norm_settle(l, shares(d, w), gamma, beta, d->layer->momentum, running);
	} else {
		norm_settle_running(l, gamma, beta, running);
		rows.x.n = w->rows;
	}
	norm_apply(l, node_x(d, w, 0), d->y);
	return 0;
}

/* The parameters' gradients are this rank's: they are summed with all others. */
static int norm_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	struct norm back = d->norm;
	size_t n = norm_channels(&back);
	void *x = node_x(d, w, 0), *dx = node_dx(d, w, 0);

	back.relu = d->relu && !d->pooled;
	norm_back_sum(&back, x, d->y, d->dy, w->threads);
	for (size_t k = 0; k < l->weights; k++) {
		w->grad[d->bias_at + k] = (float)back.sums[k];
		w->grad[d->at + k] = (float)back.sums[n + k];
	}
	/* Every rank takes part, whether or not its images' gradient is wanted. */
	TRY(sum_over_ranks(d, w, &back, err));
	if (dx)
		norm_back_apply(&back, shares(d, w), x, d->y, d->dy, dx);
	return 0;
}

const struct node_kind node_kind_norm = { .name = "batch norm",
	.make = norm_make,
	.plan = norm_plan,
	.forward = norm_forward,
	.backward = norm_backward,
	.lets_relu_pass = 1 };

/* --- sums ------------------------------------------------------------------------------------ */

static int sum_make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct dnn_format a = node_in(d, w, 0), b = node_in(d, w, 1);

	d->format = a;
	TRY(node_reorder(w, &b, &a, &d->with_to_from, err));
	return node_reorder(w, &a, &b, &d->from_to_with, err);
}

static void sum_plan(struct node *d, const struct node_world *w, struct plan *p)
{
	d->with_copy = node_plan_take_if(p, &d->with_to_from, &d->format);
}

static int sum_bind(struct node *d, struct node_world *w, struct mlr_error *err)
{
	node_point(&d->with_to_from, node_x(d, w, 1), d->with_copy);
	node_point(&d->from_to_with, d->dy, node_dx(d, w, 1));
	return 0;
}

static int sum_forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	dnn_op_run(&w->dnn, &d->with_to_from);
	kernel_add(node_rows(d, w), node_x(d, w, 0), d->with_copy ? d->with_copy : node_x(d, w, 1),
		d->y, d->relu, w->bf16);
	return 0;
}

static int sum_backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	for (int i = 0; i < 2; i++) {
		const struct node *from = d->from[i];
		const void *share = d->dy;

		if (!from || !from->learns)
			continue;
		if (i == 1 && d->from_to_with.n) {
			dnn_op_run(&w->dnn, &d->from_to_with);
			share = w->spare;
		}
		if (d->adds[i])
			kernel_add(node_count(from), from->dy, share, from->dy, 0, w->bf16);
		else if (!(i == 1 && d->from_to_with.n))
			kernel_convert(node_count(d), share, w->bf16, from->dy, w->bf16);
	}
	return 0;
}

const struct node_kind node_kind_sum = { .name = "sum",
	.make = sum_make,
	.plan = sum_plan,
	.bind = sum_bind,
	.forward = sum_forward,
	.backward = sum_backward,
	.adds_itself = 1 };
