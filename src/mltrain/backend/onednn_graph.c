#include "backend/onednn_graph.h"

#include "base/base.h"

/* How often each layer is read, and by which one last. */
struct reading {
	int *readers, *by;
};

static void reading_done(struct reading *r)
{
	free(r->readers);
	free(r->by);
}

static void note(struct reading *r, int from, size_t by)
{
	if (from == LAYER_INPUT)
		return;
	r->readers[from]++;
	r->by[from] = (int)by;
}

static void count_readers(const struct layer *layers, size_t n, struct reading *r)
{
	r->readers = xcalloc(n, sizeof(*r->readers));
	r->by = xcalloc(n, sizeof(*r->by));
	for (size_t i = 0; i < n; i++) {
		note(r, layers[i].from, i);
		if (layers[i].kind == LAYER_ADD)
			note(r, layers[i].with, i);
	}
}

/* The layer of that kind that alone reads this one, or NULL. */
static const struct layer *only_reader(const struct layer *layers, const struct reading *r,
	const struct layer *l, enum layer_kind kind)
{
	size_t i = (size_t)(l - layers);
	const struct layer *by = &layers[r->by[i]];

	return r->readers[i] == 1 && by->kind == kind ? by : NULL;
}

/* The ReLU behind that can be part of a layer's node, or NULL. */
static const struct layer *relu_behind(
	const struct layer *layers, const struct reading *r, const struct layer *l)
{
	if (l->kind != LAYER_CONV && l->kind != LAYER_DENSE && l->kind != LAYER_BATCHNORM &&
		l->kind != LAYER_ADD)
		return NULL;
	return only_reader(layers, r, l, LAYER_RELU);
}

/* The pooling behind that some kinds of convolutions do themselves, or NULL. */
static const struct layer *pool_behind(
	const struct layer *layers, const struct reading *r, const struct layer *l)
{
	const struct layer *pool = only_reader(layers, r, l, LAYER_MAXPOOL);

	return pool && pool->size == 2 && pool->stride == 2 ? pool : NULL;
}

/* The batch norm behind that can be part of a layer when predicting, or NULL. */
static const struct layer *norm_behind(const struct node_world *w, const struct layer *layers,
	const struct reading *r, const struct layer *l)
{
	if (w->trains || (l->kind != LAYER_CONV && l->kind != LAYER_DENSE))
		return NULL;
	return only_reader(layers, r, l, LAYER_BATCHNORM);
}

/* The last reader in order is the first on the way back: it writes a gradient, the others add. */
static void settle_adding(struct graph *g)
{
	auto_free char *written = xcalloc(g->n, 1);

	for (size_t i = g->n; i-- > 0;)
		for (int k = 0; k < g->nodes[i].inputs; k++) {
			const struct node *from = g->nodes[i].from[k];

			if (!from)
				continue;
			g->nodes[i].adds[k] = written[from - g->nodes];
			written[from - g->nodes] = 1;
		}
}

/* node_of[layer] is the node whose output the layer's is. */
static int make_node(struct graph *g, struct node_world *w, const struct layer *layers, size_t i,
	const struct reading *r, struct node **node_of, struct mlr_error *err)
{
	const struct layer *l = &layers[i], *norm = norm_behind(w, layers, r, l);
	const struct layer *relu = relu_behind(layers, r, norm ? norm : l);
	struct node *d = &g->nodes[g->n++]; /* also before a failure, whose remains are cleared */
	int e;

	d->layer = l;
	d->index = i;
	d->inputs = l->kind == LAYER_ADD ? 2 : 1;
	d->relu = relu || l->kind == LAYER_RELU;
	d->norm_behind = norm;
	d->pool = l->kind == LAYER_CONV ? pool_behind(layers, r,
						  relu           ? relu
							  : norm ? norm
								 : l)
					: NULL;
	d->learns = w->trains && layer_has_params(l);
	for (int k = 0; k < d->inputs; k++) {
		int from = k ? l->with : l->from;

		d->from[k] = from == LAYER_INPUT ? NULL : node_of[from];
		d->learns |= d->from[k] && d->from[k]->learns;
	}
	d->readers = r->readers[(relu ? relu : norm ? norm : l) - layers];
	d->last = d->readers == 0;
	e = node_make(d, w, err);
	node_of[i] = d;
	if (norm)
		node_of[norm - layers] = d;
	if (relu)
		node_of[relu - layers] = d;
	if (d->pool) {
		node_of[d->pool - layers] = d;
		d->readers = r->readers[d->pool - layers];
	}
	return e;
}

int graph_make(struct graph *g, struct node_world *w, const struct layer *layers, size_t n,
	struct mlr_error *err)
{
	auto_call(reading_done) struct reading r = { NULL, NULL };
	auto_free struct node **node_of = xcalloc(n, sizeof(*node_of));

	g->nodes = xcalloc(n, sizeof(*g->nodes));
	count_readers(layers, n, &r);
	for (size_t i = 0; i < n; i++) {
		int e = node_of[i] ? 0 : make_node(g, w, layers, i, &r, node_of, err);

		if (e < 0)
			return e;
	}
	settle_adding(g);
	return 0;
}

void graph_done(struct graph *g)
{
	for (size_t i = 0; i < g->n; i++)
		node_done(&g->nodes[i]);
	free(g->nodes);
	*g = (struct graph){ NULL, 0 };
}
