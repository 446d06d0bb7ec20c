/*
 * A network's first convolution by imageconv.c, with the ReLU and the pooling behind it.
 */
#include "backend/onednn_node.h"

static int make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	int dims[4] = { 0 };

	imageconv_fits(&d->images, w->batch, l->in.dim[0], l->outputs, l->in.dim[1], l->in.dim[2],
		l->size, l->stride, l->pad, w->threads);
	d->images.bf16 = w->bf16;
	node_batch_dims(w->batch, d->out, dims);
	d->format = dnn_format_typed(dnn_format_by(4, dims, dnnl_nChw16c), w->bf16);
	node_weight_dims(l, dims);
	d->weights = dnn_format_by(4, dims, dnnl_hwio);
	mlr_debug("layer '%s': of images, pooled", l->name);
	return 0;
}

static void plan(struct node *d, const struct node_world *w, struct plan *p)
{
	if (d->learns)
		d->winner = node_plan_take(p, kernel_image_count(&d->image));
}

static size_t scratch(const struct node *d, const struct node_world *w)
{
	return w->lanes->imageconv_work(&d->images) * sizeof(float);
}

static int forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const float *bias = !d->biases ? NULL : w->param + d->bias_at;

	w->lanes->imageconv_forward(&d->images, w->rows, w->pixels, w->param + d->at, bias, d->relu,
		d->y, w->step ? d->winner : NULL, w->scratch);
	return 0;
}

static int backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	float *db = !d->biases ? NULL : w->grad + d->bias_at;

	w->lanes->imageconv_backward(
		&d->images, w->pixels, d->dy, d->winner, w->grad + d->at, db, w->scratch);
	return 0;
}

const struct node_kind node_kind_image = { .name = "of images",
	.make = make,
	.plan = plan,
	.scratch = scratch,
	.forward = forward,
	.backward = backward,
	.lets_relu_pass = 1,
	.pools = 1 };
