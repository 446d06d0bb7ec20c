/*
 * Convolutions by winograd.h, with the ReLU and the pooling behind them.
 */
#include "backend/onednn_node.h"

static const struct winograd_code *code(const struct node *d, const struct node_world *w)
{
	return d->wino.sizes.size == 3 ? w->lanes->winograd_3 : w->lanes->winograd_5;
}

static int make(struct node *d, struct node_world *w, struct mlr_error *err)
{
	const struct layer *l = d->layer;
	struct winograd *g = &d->wino.sizes;
	int dims[4] = { 0 };

	winograd_fits(g, w->batch, l->in.dim[0], l->outputs, l->in.dim[1], l->in.dim[2], l->size,
		l->stride, l->pad, w->threads);
	g->pool = d->pool != NULL;
	g->bf16 = w->bf16;
	node_batch_dims(w->batch, d->out, dims);
	d->format = dnn_format_typed(dnn_format_by(4, dims, dnnl_nChw16c), w->bf16);
	node_weight_dims(l, dims);
	d->weights = dnn_format_by(4, dims, dnnl_hwio);
	mlr_debug("layer '%s': Winograd%s", l->name, g->pool ? ", pooled" : "");
	return 0;
}

static void plan(struct node *d, const struct node_world *w, struct plan *p)
{
	struct node_wino *n = &d->wino;
	int back = d->learns && d->from[0]->learns;
	size_t count = winograd_u(&n->sizes);

	n->u = node_plan_take(p, count * sizeof(float));
	if (back)
		n->ut = node_plan_take(p, count * sizeof(float));
	if (d->learns && w->bf16 && w->lanes == &lanes_16) {
		n->pairs = node_plan_take(p, count / 2 * sizeof(uint32_t));
		if (back)
			n->pairs_t = node_plan_take(p, count / 2 * sizeof(uint32_t));
	}
	if (d->learns && n->sizes.pool)
		d->winner = node_plan_take(p, kernel_image_count(&d->image));
}

static size_t scratch(const struct node *d, const struct node_world *w)
{
	return code(d, w)->work(&d->wino.sizes, d->learns) * sizeof(float);
}

static int forward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct node_wino *n = &d->wino;
	const float *bias = !d->biases ? NULL : w->param + d->bias_at;

	code(d, w)->forward(&n->sizes, w->rows, node_x(d, w, 0), n->u, w->step ? n->pairs : NULL,
		bias, d->relu, d->y, w->step ? d->winner : NULL, w->scratch);
	return 0;
}

static int backward(struct node *d, struct node_world *w, struct mlr_error *err)
{
	struct node_wino *n = &d->wino;
	float *db = !d->biases ? NULL : w->grad + d->bias_at;
	const void *y = d->relu && !d->pooled ? d->y : NULL;

	code(d, w)->backward(&n->sizes, node_x(d, w, 0), y, d->dy, d->winner, n->ut, n->pairs_t,
		w->grad + d->at, db, node_dx(d, w, 0), w->scratch);
	return 0;
}

static void renew(struct node *d, struct node_world *w)
{
	const struct node_wino *n = &d->wino;

	code(d, w)->weights(&n->sizes, w->param + d->at, n->u, n->ut);
	if (n->pairs)
		code(d, w)->pairs(&n->sizes, n->u, n->ut, n->pairs, n->pairs_t);
}

const struct node_kind node_kind_wino = { .name = "Winograd",
	.make = make,
	.plan = plan,
	.scratch = scratch,
	.forward = forward,
	.backward = backward,
	.renew = renew,
	.lets_relu_pass = 1,
	.pools = 1 };
