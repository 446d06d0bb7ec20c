#include "backend/reference.h"

#include "backend/ops.h"
#include "tensor/rng.h"

#include <string.h>

static struct op_conv conv_of(const struct layer *l, int n)
{
	return (struct op_conv){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->outputs, l->size,
		l->stride, l->pad, l->out.dim[1], l->out.dim[2] };
}

static struct op_pool pool_of(const struct layer *l, int n)
{
	return (struct op_pool){ n, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->size, l->stride,
		l->out.dim[1], l->out.dim[2] };
}

static struct op_dense dense_of(const struct layer *l, int n)
{
	return (struct op_dense){ n, (int)shape_count(&l->in), l->outputs };
}

static struct op_norm norm_of(const struct layer *l, int n)
{
	return (struct op_norm){ n, l->in.dim[0], l->in.dim[1] * l->in.dim[2], l->epsilon };
}

int reference_ranks(const struct reference *r)
{
	return r->exchange ? r->exchange->ranks : 1;
}

/* A batch norm's sums, over the ranks unless it is of each one's rows. */
static int sum_over_ranks(struct reference *r, const struct layer *l, struct mlr_error *err)
{
	return reference_ranks(r) > 1 && !l->own_rows
		? r->exchange->sum(r->exchange->ctx, r->sums, l->states, err)
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
	struct place *at = &r->place[i];
	struct op_norm d = norm_of(l, n);
	float *running_mean = r->state + l->state_at, *running_var = running_mean + d.c;
	const float *gamma = r->param + l->weight_at, *beta = r->param + l->bias_at;
	int failed;

	if (!step) {
		op_norm_forward(&d, x, running_mean, running_var, gamma, beta, at->y);
		return 0;
	}
	op_norm_sums(&d, x, r->sums);
	failed = sum_over_ranks(r, l, err);
	if (failed < 0)
		return failed;
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
	struct place *at = &r->place[i];
	struct op_norm d = norm_of(l, r->engine.batch);
	int failed;

	op_norm_grads(&d, x, at->mean, at->var, at->dy, r->sums);
	for (int c = 0; c < d.c; c++) {
		r->grad[l->bias_at + (size_t)c] = (float)r->sums[c];
		r->grad[l->weight_at + (size_t)c] = (float)r->sums[d.c + c];
	}
	if (!dx)
		return 0;
	failed = sum_over_ranks(r, l, err);
	if (failed < 0)
		return failed;
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
	struct place *at = &r->place[i];
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

int reference_layer_forward(
	struct reference *r, size_t i, int n, const struct step *step, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct place *at = &r->place[i];
	const float *x = output_of(r, l->from), *w = r->param + l->weight_at;
	const float *b = l->biases ? r->param + l->bias_at : NULL;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv = conv_of(l, n);
	struct op_dense dense = dense_of(l, n);
	struct op_pool pool = pool_of(l, n);

	switch (l->kind) {
	case LAYER_CONV:
		op_conv_forward(&conv, x, w, b, at->y);
		break;
	case LAYER_RELU:
		op_relu_forward(count, x, at->y);
		break;
	case LAYER_MAXPOOL:
		op_pool_forward(&pool, x, at->y, at->winner);
		break;
	case LAYER_DENSE:
		op_dense_forward(&dense, x, w, b, at->y);
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

int reference_layer_backward(struct reference *r, size_t i, float *dx, struct mlr_error *err)
{
	const struct layer *l = &r->layers[i];
	struct place *at = &r->place[i];
	int n = r->engine.batch;
	const float *x = output_of(r, l->from), *w = r->param + l->weight_at;
	float *dw = r->grad + l->weight_at, *db = l->biases ? r->grad + l->bias_at : NULL;
	size_t count = (size_t)n * shape_count(&l->out);
	struct op_conv conv = conv_of(l, n);
	struct op_dense dense = dense_of(l, n);
	struct op_pool pool = pool_of(l, n);

	if (l->kind == LAYER_CONV)
		op_conv_backward_weights(&conv, x, at->dy, dw, db);
	if (l->kind == LAYER_DENSE)
		op_dense_backward_weights(&dense, x, at->dy, dw, db);
	if (l->kind == LAYER_BATCHNORM)
		return norm_backward(r, i, x, dx, err);
	if (!dx)
		return 0;
	switch (l->kind) {
	case LAYER_CONV:
		op_conv_backward_data(&conv, at->dy, w, dx);
		break;
	case LAYER_DENSE:
		op_dense_backward_data(&dense, at->dy, w, dx);
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
