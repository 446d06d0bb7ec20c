/*
 * Convolutions and dense layers as oneDNN does them. In bf16, oneDNN reads activations and weights
 * in bf16 and writes the weights' gradients as floats, in whose format the parameter blocks are.
 */
#include "backend/onednn_node.h"

/*
 * The layer with every format left open, but a dense layer's output, which is a row, and its input,
 * which it can mostly read as it lies; or, when plain, with a convolution's activations row-major.
 */
static struct dnn_layer open_layer(const struct node *d, const struct node_world *w, int plain)
{
	const struct layer *l = d->layer;
	struct dnn_layer ret = { .is_conv = l->kind == LAYER_CONV,
		.stride = l->stride,
		.pad = l->pad,
		.relu = d->relu,
		.predicts = !d->learns };
	int dims[4] = { 0 }, rank = node_batch_dims(w->batch, &l->in, dims);

	ret.src = !ret.is_conv ? node_in(d, w, 0)
		: plain        ? dnn_format_plain(rank, dims)
			       : dnn_format_any(rank, dims);
	ret.src = dnn_format_typed(ret.src, w->bf16);
	rank = node_batch_dims(w->batch, &l->out, dims);
	ret.dst = ret.is_conv && !plain ? dnn_format_any(rank, dims) : dnn_format_plain(rank, dims);
	ret.dst = dnn_format_typed(ret.dst, w->bf16 && !d->last);
	rank = node_weight_dims(l, dims);
	ret.weights = dnn_format_typed(dnn_format_any(rank, dims), w->bf16);
	if (d->biases)
		ret.bias = dnn_format_plain(1, &l->outputs);
	return ret;
}

/* Is it done by oneDNN's general code, which is some hundred times slower than the others? */
static int is_slow(const struct dnn_op *op)
{
	return strncmp(dnn_op_name(op), "ref", 3) == 0;
}

/* A dense layer whose input as it lies would be read by oneDNN's slow general code gets it in the
 * format that oneDNN likes. */
static int make_forward(
	struct node_world *w, struct node *d, struct dnn_layer *l, struct mlr_error *err)
{
	int dims[4] = { 0 }, rank = node_batch_dims(w->batch, &d->layer->in, dims);
	int r = dnn_forward(&w->dnn, l, &d->ops.forward, err);

	if (l->is_conv || (r < 0 && r != -ENOTSUP) || (r == 0 && !is_slow(&d->ops.forward)))
		return r;
	dnn_op_done(&d->ops.forward);
	l->src = dnn_format_typed(dnn_format_any(rank, dims), w->bf16);
	return dnn_forward(&w->dnn, l, &d->ops.forward, err);
}

static int make_to_weights(
	struct node_world *w, struct node *d, struct dnn_layer *l, struct mlr_error *err)
{
	struct dnn_format f, weights = l->weights;
	int dims[4] = { 0 }, rank = node_weight_dims(d->layer, dims), r;

	l->weights = dnn_format_any(rank, dims);
	r = dnn_backward_weights(&w->dnn, l, &d->ops.forward, &d->ops.to_weights, err);
	l->weights = weights;
	if (r < 0)
		return r;
	f = dnn_op_format(&d->ops.to_weights, DNNL_ARG_DIFF_WEIGHTS);
	if (w->bf16)
		d->weights = f;
	return node_reorder(w, &f, &d->weights, &d->ops.dw_to_grad, err);
}

static int make_to_data(
	struct node_world *w, struct node *d, struct dnn_layer *l, struct mlr_error *err)
{
	struct dnn_format f, weights = dnn_op_format(&d->ops.forward, DNNL_ARG_WEIGHTS);
	struct dnn_format in = node_in(d, w, 0);
	int dims[4] = { 0 }, rank = node_weight_dims(d->layer, dims);

	/* A dense layer's weights are large: reading them as they lie beats a faster format of
	 * their own. */
	l->weights = l->is_conv ? dnn_format_typed(dnn_format_any(rank, dims), w->bf16) : weights;
	TRY(dnn_backward_data(&w->dnn, l, &d->ops.forward, &d->ops.to_data, err));
	f = dnn_op_format(&d->ops.to_data, DNNL_ARG_WEIGHTS);
	TRY(node_reorder(w, &weights, &f, &d->ops.weights_to_data, err));
	return node_reorder(w, &d->ops.src, &in, &d->ops.dsrc_to_din, err);
}

/* Make the three directions of a layer and the reorders between formats that differ. */
static int make_directions(struct node *d, struct node_world *w, int plain, struct mlr_error *err)
{
	struct dnn_layer l = open_layer(d, w, plain);
	struct dnn_format in = node_in(d, w, 0), f, dst;

	TRY(make_forward(w, d, &l, err));
	d->ops.src = l.src = dnn_op_format(&d->ops.forward, DNNL_ARG_SRC);
	d->format = dnn_op_format(&d->ops.forward, DNNL_ARG_DST);
	f = dnn_op_format(&d->ops.forward, DNNL_ARG_WEIGHTS);
	d->weights = dnn_format_typed(f, 0);
	dst = l.dst = dnn_format_typed(d->format, w->bf16);
	TRY(node_reorder(w, &in, &d->ops.src, &d->ops.in_to_src, err));
	TRY(node_reorder(w, &d->format, &dst, &d->ops.dy_to_dst, err));
	if (d->learns)
		TRY(make_to_weights(w, d, &l, err));
	TRY(node_reorder(w, &d->weights, &f, &d->ops.param_to_weights, err));
	return d->from[0] && d->from[0]->learns ? make_to_data(w, d, &l, err) : 0;
}

/*
 * With some numbers of channels (6 to 16, say) the formats that are best forward leave the way back
 * to the general code; row-major, it is a matrix product.
 */
static int make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct node_layer *o = &d->ops;
	int r = make_directions(d, w, 0, err);

	if (r == 0 && d->layer->kind == LAYER_CONV &&
		(is_slow(&o->forward) || is_slow(&o->to_data) || is_slow(&o->to_weights))) {
		node_done(d);
		r = make_directions(d, w, 1, err);
	}
	if (r == 0)
		mlr_debug("layer '%s': forward %s, backward data %s, weights %s%s%s%s%s%s",
			d->layer->name, dnn_op_name(&d->ops.forward), dnn_op_name(&d->ops.to_data),
			dnn_op_name(&d->ops.to_weights),
			d->ops.in_to_src.n ? ", reorder of the input" : "",
			d->ops.dsrc_to_din.n ? ", of its gradient" : "",
			d->ops.param_to_weights.n ? ", of the weights" : "",
			d->ops.weights_to_data.n ? ", again for the way back" : "",
			d->ops.dw_to_grad.n ? ", of their gradient" : "");
	return r;
}

static void plan(struct node *d, const struct node_world *w, struct plan *p)
{
	struct node_layer *o = &d->ops;
	struct dnn_format f = dnn_op_format(&o->forward, DNNL_ARG_WEIGHTS);

	o->src_copy = node_plan_take_if(p, &o->in_to_src, &o->src);
	o->dsrc = node_plan_take_if(p, &o->dsrc_to_din, &o->src);
	o->weights = node_plan_take_if(p, &o->param_to_weights, &f);
	f = dnn_format_typed(d->format, w->bf16);
	o->dst = node_plan_take_if(p, &o->dy_to_dst, &f);
	if (!d->learns)
		return;
	f = dnn_op_format(&o->to_weights, DNNL_ARG_DIFF_WEIGHTS);
	o->dw = node_plan_take_if(p, &o->dw_to_grad, &f);
	if (o->weights_to_data.n) {
		f = dnn_op_format(&o->to_data, DNNL_ARG_WEIGHTS);
		o->data_weights = node_plan_take(p, dnn_format_size(&f));
	}
}

static int bind(struct node *d, struct node_world *w, struct mlr_error *err)
{
	static const int forward[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
		DNNL_ARG_DST };
	static const int to_weights[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
		DNNL_ARG_DIFF_BIAS };
	static const int to_data[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	struct node_layer *o = &d->ops;
	float *param = w->param + d->at, *grad = d->learns ? w->grad + d->at : NULL;
	void *x = node_x(d, w, 0), *dx = node_dx(d, w, 0);
	void *src = o->src_copy ? o->src_copy : x, *dsrc = o->dsrc ? o->dsrc : dx;
	void *weights = o->weights ? o->weights : param, *dy = o->dst ? o->dst : d->dy;
	void *bias = !d->biases ? NULL : w->param + d->bias_at;
	void *db = !d->biases || !d->learns ? NULL : w->grad + d->bias_at;

	node_point(&o->in_to_src, x, o->src_copy);
	node_point(&o->dsrc_to_din, o->dsrc, dx);
	node_point(&o->param_to_weights, param, o->weights);
	node_point(&o->weights_to_data, weights, o->data_weights);
	node_point(&o->dw_to_grad, o->dw, grad);
	node_point(&o->dy_to_dst, d->dy, o->dst);
	TRY(node_bind_op(w, &o->forward, forward, (void *[]){ src, weights, bias, d->y }, 4, err));
	if (!d->learns)
		return 0;
	TRY(node_bind_op(w, &o->to_weights, to_weights,
		(void *[]){ src, dy, o->dw ? o->dw : grad, db }, 4, err));
	if (!dx)
		return 0;
	return node_bind_op(w, &o->to_data, to_data,
		(void *[]){ dy, o->data_weights ? o->data_weights : weights, dsrc }, 3, err);
}

static int forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	dnn_op_run(&w->dnn, &d->ops.in_to_src);
	dnn_op_run(&w->dnn, &d->ops.forward);
	return 0;
}

static int backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	dnn_op_run(&w->dnn, &d->ops.dy_to_dst);
	dnn_op_run(&w->dnn, &d->ops.to_weights);
	dnn_op_run(&w->dnn, &d->ops.dw_to_grad);
	dnn_op_run(&w->dnn, &d->ops.weights_to_data);
	dnn_op_run(&w->dnn, &d->ops.to_data);
	dnn_op_run(&w->dnn, &d->ops.dsrc_to_din);
	return 0;
}

static void renew(struct node *d, struct node_world *w)
{
	dnn_op_run(&w->dnn, &d->ops.param_to_weights);
}

const struct node_kind node_kind_layer = { .name = "oneDNN",
	.make = make,
	.plan = plan,
	.bind = bind,
	.forward = forward,
	.backward = backward,
	.renew = renew };
