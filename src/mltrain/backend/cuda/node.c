#include "backend/cuda/node.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "tensor/batch.h"

#include <errno.h>
#include <string.h>

#define PARAMS_ALIGN 128 /* elements: 256 bytes as bf16, which cuBLASLt takes matrices to have */
#define WINDOW_MAX   15  /* kernel_maxpool_forward()'s */

struct making {
	const struct layer *layers;
	int n, batch;
	enum dtype dtype;
	int *readers;   /* [n] layers that read layer i */
	int *reader;    /* [n] the last of them */
	int *tensor_of; /* [n] the tensor that holds layer i's output; -1 inside a node */
	struct nodes *out;
};

static int reads(const struct layer *l, int which)
{
	return l->from == which || (l->kind == LAYER_ADD && l->with == which);
}

static void count_readers(struct making *m)
{
	for (int i = 0; i < m->n; i++) {
		m->tensor_of[i] = -1;
		for (int k = i + 1; k < m->n; k++)
			if (reads(&m->layers[k], i)) {
				m->readers[i]++;
				m->reader[i] = k;
			}
	}
}

/* The layer behind i when it is of that kind and alone reads i's output; else -1. */
static int follower(const struct making *m, int i, enum layer_kind kind)
{
	int next = m->readers[i] == 1 ? m->reader[i] : -1;

	return next >= 0 && m->layers[next].kind == kind ? next : -1;
}

static int add_tensor(struct nodes *n, const struct shape *s, int producer)
{
	struct tensor_use t = { .h = 1, .w = 1, .c = s->dim[0], .producer = producer };

	if (s->rank == 3) {
		t.h = s->dim[1];
		t.w = s->dim[2];
	}
	t.count = shape_count(s);
	t.first = t.last = -1;
	n->tensor = xgrow(n->tensor, (size_t)n->tensors, sizeof(*n->tensor));
	n->tensor[n->tensors] = t;
	return n->tensors++;
}

static struct kernel_pool window_of(const struct layer *l, int batch)
{
	return (struct kernel_pool){ batch, l->in.dim[0], l->in.dim[1], l->in.dim[2], l->size,
		l->stride ? l->stride : l->size, l->out.dim[1], l->out.dim[2] };
}

/* 2x2 maxima that a convolution takes on the way. */
static int is_small_pool(const struct layer *l)
{
	return l->size == 2 && (l->stride == 2 || l->stride == 0);
}

/* Take in what follows layer i. Returns the last layer taken in. */
static int take_in(struct making *m, struct node *node, int i)
{
	int last = i, next = follower(m, i, LAYER_RELU);
	int multiplies = node->kind == LAYER_CONV || node->kind == LAYER_DENSE;

	if (next >= 0) {
		node->relu = 1;
		last = next;
	}
	if (!multiplies)
		return last;
	next = follower(m, last, LAYER_DROPOUT);
	if (next >= 0 && node->relu && node->kind == LAYER_DENSE) {
		node->dropout = next;
		node->rate = m->layers[next].rate;
		return next;
	}
	next = follower(m, last, LAYER_MAXPOOL);
	if (next >= 0 && node->kind == LAYER_CONV && is_small_pool(&m->layers[next])) {
		node->pool = 1;
		node->window = window_of(&m->layers[next], m->batch);
		last = next;
	}
	return last;
}

static void place_params(struct making *m, struct node *node)
{
	const struct layer *l = node->layer;

	node->weights = l->weights;
	node->biases = l->biases;
	node->state_at = l->state_at;
	if (!l->weights)
		return;
	node->at = m->out->elements;
	m->out->elements +=
		(l->weights + l->biases + PARAMS_ALIGN - 1) / PARAMS_ALIGN * PARAMS_ALIGN;
}

static void describe(struct making *m, struct node *node)
{
	const struct layer *l = node->layer;
	const struct tensor_use *x = &m->out->tensor[node->x];

	node->pixels = x->h * x->w;
	switch (l->kind) {
	case LAYER_CONV:
		node->conv = (struct kernel_conv){ m->batch, l->in.dim[0], l->in.dim[1],
			l->in.dim[2], l->outputs, l->size, l->stride, l->pad, l->out.dim[1],
			l->out.dim[2] };
		node->few = node->x == NODE_INPUT && kernel_few_fits(&node->conv, m->dtype);
		break;
	case LAYER_DENSE:
		node->conv = kernel_dense(m->batch, (int)x->count, l->outputs);
		break;
	case LAYER_MAXPOOL:
	case LAYER_AVGPOOL:
		node->window = window_of(l, m->batch);
		break;
	case LAYER_DROPOUT:
		node->rate = l->rate;
		break;
	case LAYER_BATCHNORM:
		m->out->norms++;
		break;
	case LAYER_RELU:
	case LAYER_GLOBALPOOL:
	case LAYER_ADD:
		break;
	}
}

static int refused(const struct layer *l, struct mlr_error *err)
{
	if (l->kind == LAYER_MAXPOOL && l->size > WINDOW_MAX) {
		mlr_fail(err, ENOTSUP, "backend cuda: layer '%s': maxima of %dx%d", l->name,
			l->size, l->size);
		return mlr_hint(
			err, "%d is the most; --backend onednn has no such limit", WINDOW_MAX);
	}
	return 0;
}

static int tensor_read(const struct making *m, int layer)
{
	return layer == LAYER_INPUT ? NODE_INPUT : m->tensor_of[layer];
}

static int add_node(struct making *m, int i, struct mlr_error *err)
{
	const struct layer *l = &m->layers[i];
	struct node node = { .kind = l->kind, .layer = l, .index = i, .dropout = -1, .with = -1 };
	struct nodes *out = m->out;
	int last, r = refused(l, err);

	if (r < 0)
		return r;
	node.x = tensor_read(m, l->from);
	if (l->kind == LAYER_ADD)
		node.with = tensor_read(m, l->with);
	describe(m, &node);
	place_params(m, &node);
	last = i;
	if (l->kind == LAYER_CONV || l->kind == LAYER_DENSE || l->kind == LAYER_ADD ||
		l->kind == LAYER_BATCHNORM)
		last = take_in(m, &node, i);
	node.y = add_tensor(out, &m->layers[last].out, out->n);
	m->tensor_of[last] = node.y;
	out->node = xgrow(out->node, (size_t)out->n, sizeof(*out->node));
	out->node[out->n++] = node;
	return 0;
}

static void note_reader(struct nodes *n, int tensor, int node)
{
	struct tensor_use *t = &n->tensor[tensor];

	if (t->first < 0)
		t->first = node;
	t->last = node;
	t->readers++;
	if (tensor == NODE_INPUT && !n->node[node].few)
		n->gather = 1;
}

/* What the backward pass wants to know of each tensor. */
static void look_back(struct nodes *n)
{
	for (int i = 0; i < n->n; i++) {
		struct node *node = &n->node[i];
		struct tensor_use *y = &n->tensor[node->y];

		note_reader(n, node->x, i);
		if (node->with >= 0)
			note_reader(n, node->with, i);
		y->needs = node->weights || n->tensor[node->x].needs ||
			(node->with >= 0 && n->tensor[node->with].needs);
	}
	for (int t = 1; t < n->tensors; t++) {
		struct tensor_use *u = &n->tensor[t];
		const struct node *maker = &n->node[u->producer];
		const struct node *reader = u->readers == 1 ? &n->node[u->first] : NULL;

		u->masked = reader && maker->relu && maker->kind != LAYER_BATCHNORM &&
			(reader->kind == LAYER_CONV || reader->kind == LAYER_DENSE);
	}
	n->tensor[n->node[n->n - 1].y].is_float = 1;
}

int nodes_make(const struct layer *layers, size_t n, int batch, enum dtype dtype, struct nodes *ret,
	struct mlr_error *err)
{
	auto_free int *readers = xcalloc(n, sizeof(int)), *reader = xcalloc(n, sizeof(int)),
		      *tensor_of = xcalloc(n, sizeof(int));
	struct nodes out = { 0 };
	struct making m = { layers, (int)n, batch, dtype, readers, reader, tensor_of, &out };
	auto_free char *taken = xcalloc(n, 1);
	int r = 0;

	add_tensor(&out, &layers[0].in, -1);
	count_readers(&m);
	for (int i = 0; i < m.n && r == 0; i++) {
		int before = out.n;

		if (taken[i])
			continue;
		r = add_node(&m, i, err);
		/* What it took in is the chain up to the layer that has its tensor. */
		for (int k = i; r == 0 && out.n > before && tensor_of[k] < 0;)
			taken[k = reader[k]] = 1;
	}
	if (r < 0) {
		nodes_done(&out);
		return r;
	}
	look_back(&out);
	*ret = out;
	return 0;
}

void nodes_done(struct nodes *n)
{
	free(n->node);
	free(n->tensor);
	*n = (struct nodes){ 0 };
}
