#include "backend/cuda/node.h"

#include "tensor/batch.h"

#define PARAMS_ALIGN ((size_t)128) /* elements: 256 bytes as bf16, which gemm_lt_run() wants */
#define WINDOW_MAX   15            /* kernel_maxpool_forward()'s */

static int add_tensor(struct nodes *n, const struct shape *s, int producer)
{
	struct tensor_use t = { .h = 1, .w = 1, .c = s->dim[0], .producer = producer };

	if (s->rank == 3) {
		t.h = s->dim[1];
		t.w = s->dim[2];
	}
	t.count = shape_count(s);
	t.last = -1;
	n->tensor = xgrow(n->tensor, (size_t)n->tensors, sizeof(*n->tensor));
	n->tensor[n->tensors] = t;
	return n->tensors++;
}

static struct kernel_pool window_of(const struct layer *l, int batch)
{
	return (struct kernel_pool){ batch, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->size,
		l->stride ? l->stride : l->size, l->out.dim[1], l->out.dim[2] };
}

/* Take in what follows: ReLU, then a dense layer's dropout or a convolution's 2x2 maxima. */
static int takes(void *ctx, const struct graph_node *d, const struct layer *next)
{
	enum layer_kind kind = d->layer->kind;

	switch (next->kind) {
	case LAYER_RELU:
		return d->last == d->layer &&
			(kind == LAYER_CONV || kind == LAYER_DENSE || kind == LAYER_ADD ||
				kind == LAYER_BATCHNORM);
	case LAYER_DROPOUT:
		return kind == LAYER_DENSE && d->relu && !d->dropout;
	case LAYER_MAXPOOL:
		return kind == LAYER_CONV && !d->pool && next->size == 2 &&
			(next->stride == 2 || next->stride == 0);
	default:
		return 0;
	}
}

static size_t aligned(size_t elements)
{
	return (elements + PARAMS_ALIGN - 1) / PARAMS_ALIGN * PARAMS_ALIGN;
}

static void place_params(struct nodes *n, struct node *node)
{
	const struct layer *l = node->layer;

	node->weights = l->weights;
	node->biases = l->biases;
	node->state_at = l->state_at;
	if (!l->weights)
		return;
	node->at = n->elements;
	node->bias_at = aligned(l->weights);
	node->count = node->bias_at + aligned(l->biases);
	n->elements += node->count;
}

static void describe(struct nodes *n, struct node *node, int batch)
{
	const struct layer *l = node->layer;
	const struct tensor_use *x = &n->tensor[node->x];

	node->pixels = x->h * x->w;
	switch (l->kind) {
	case LAYER_MAXPOOL:
	case LAYER_AVGPOOL:
		node->window = window_of(l, batch);
		break;
	case LAYER_DROPOUT:
		node->rate = l->rate;
		break;
	case LAYER_BATCHNORM:
		n->norms++;
		break;
	case LAYER_CONV:
	case LAYER_DENSE:
	case LAYER_RELU:
	case LAYER_GLOBALPOOL:
	case LAYER_ADD:
		break;
	}
}

static int check(const struct layer *l, struct mlr_error *err)
{
	if (l->kind != LAYER_MAXPOOL || l->size <= WINDOW_MAX)
		return 0;
	mlr_fail(err, ENOTSUP, "backend cuda: layer '%s': maxima of %dx%d", l->name, l->size,
		l->size);
	return mlr_hint(err, "%d is the most; --backend onednn has no such limit", WINDOW_MAX);
}

static void read_tensor(struct nodes *n, int tensor)
{
	n->tensor[tensor].last = n->n;
	n->tensor[tensor].readers++;
}

static int add_node(struct nodes *n, const struct graph_node *d, int batch, struct mlr_error *err)
{
	struct node node = { .kind = d->layer->kind,
		.layer = d->layer,
		.index = d->index,
		.relu = d->relu != NULL,
		.pool = d->pool != NULL,
		.dropout = d->dropout ? d->index + (int)(d->dropout - d->layer) : -1,
		.x = d->from[0] + 1,
		.with = d->inputs > 1 ? d->from[1] + 1 : -1,
		.adds = d->adds[0],
		.with_adds = d->adds[1] };

	TRY(check(d->layer, err));
	describe(n, &node, batch);
	if (d->pool)
		node.window = window_of(d->pool, batch);
	if (d->dropout)
		node.rate = d->dropout->rate;
	place_params(n, &node);
	read_tensor(n, node.x);
	if (node.with >= 0)
		read_tensor(n, node.with);
	node.y = add_tensor(n, &d->last->out, n->n);
	n->tensor[node.y].needs = d->learns;
	n->node = xgrow(n->node, (size_t)n->n, sizeof(*n->node));
	n->node[n->n++] = node;
	return 0;
}

int nodes_make(
	const struct layer *layers, size_t n, int batch, struct nodes *ret, struct mlr_error *err)
{
	auto_call(nodes_done) struct nodes out = { 0 };
	auto_call(graph_close) struct graph graph;
	struct graph_node plan;

	add_tensor(&out, &layers[0].in, -1);
	graph_open(&graph, layers, n);
	while (graph_next(&graph, takes, NULL, &plan))
		TRY(add_node(&out, &plan, batch, err));
	out.tensor[out.node[out.n - 1].y].is_float = 1;
	*ret = take_struct(&out, { 0 });
	return 0;
}

void nodes_done(struct nodes *n)
{
	free(n->node);
	free(n->tensor);
	*n = (struct nodes){ 0 };
}
