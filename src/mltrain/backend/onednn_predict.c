/*
 * What engines that only predict do otherwise: dense layers by dense.c, and batch norm as part of
 * the layer before it.
 */
#include "backend/onednn_node.h"

#include <math.h>

/* --- dense layers ---------------------------------------------------------------------------- */

static int make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	struct dnn_format in = node_in(d, w, 0);
	int dims[4] = { 0 }, rank = node_weight_dims(l, dims);

	d->weights = dnn_format_plain(rank, dims);
	d->format = node_plain_format(w, &l->out);
	d->dense.x = (struct kernel_image){ w->batch, l->in.dim[0], l->in.dim[1], l->in.dim[2],
		l->in.dim[0], 0 };
	if (l->in.rank == 3)
		d->dense.x.block = dnn_format_block(&in);
	d->dense.outputs = l->outputs;
	mlr_debug("layer '%s': packed weights", l->name);
	return 0;
}

static void plan(struct node *d, const struct node_world *w, struct plan *p)
{
	d->packed = node_plan_take(p, w->lanes->dense_packed(&d->dense) * sizeof(float));
}

static int forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	w->lanes->dense_forward(&d->dense, w->rows, node_x(d, w, 0), d->packed,
		d->biases ? w->param + d->bias_at : NULL, d->relu, d->y);
	return 0;
}

static void renew(struct node *d, struct node_world *w)
{
	w->lanes->dense_pack(&d->dense, w->param + d->at, d->packed);
}

const struct node_kind node_kind_dense = {
	.name = "packed weights", .make = make, .plan = plan, .forward = forward, .renew = renew
};

/* --- batch norm ------------------------------------------------------------------------------ */

/* Each output's weights and bias, scaled and shifted as the running statistics say (Jacob et al.,
 * "Quantization and Training of Neural Networks", 2018, section 3.2). */
void node_fold(
	const struct node *d, const float *params, const float *states, float *weights, float *bias)
{
	const struct layer *l = d->layer, *n = d->norm_behind;
	size_t outputs = (size_t)l->outputs, row = l->weights / outputs;
	const float *mean = states + n->state_at, *variance = mean + outputs;

	for (size_t k = 0; k < outputs; k++) {
		double scale = params[n->weight_at + k] / sqrt((double)variance[k] + n->epsilon);
		double b = l->biases ? params[l->bias_at + k] : 0;

		for (size_t i = 0; i < row; i++)
			weights[k * row + i] = (float)(scale * params[l->weight_at + k * row + i]);
		bias[k] = (float)(params[n->bias_at + k] + (b - mean[k]) * scale);
	}
}
