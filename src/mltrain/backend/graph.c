#include "backend/graph.h"

struct graph_use {
	int readers, reader; /* layers that read it, and the last of them */
	int node;            /* whose part it is; GRAPH_IMAGES: not yet known */
	int learns;
};

static int input_of(const struct layer *l, int k)
{
	return k ? l->with : l->from;
}

static int inputs_of(const struct layer *l)
{
	return l->kind == LAYER_ADD ? 2 : 1;
}

void graph_open(struct graph *g, const struct layer *layers, size_t n)
{
	*g = (struct graph){ layers, xcalloc(n, sizeof(*g->use)), (int)n, 0 };
	for (int i = 0; i < g->n; i++) {
		g->use[i].node = GRAPH_IMAGES;
		for (int k = 0; k < inputs_of(&layers[i]); k++) {
			int from = input_of(&layers[i], k);

			if (from == LAYER_INPUT)
				continue;
			g->use[from].readers++;
			g->use[from].reader = i;
		}
	}
}

void graph_close(struct graph *g)
{
	free(g->use);
}

static void read_inputs(const struct graph *g, int at, struct graph_node *d)
{
	const struct layer *l = d->layer;

	d->inputs = inputs_of(l);
	d->learns = layer_has_params(l);
	for (int k = 0; k < d->inputs; k++) {
		int from = input_of(l, k);

		d->from[k] = GRAPH_IMAGES;
		if (from == LAYER_INPUT)
			continue;
		d->from[k] = g->use[from].node;
		d->adds[k] = g->use[from].reader != at || (k && l->with == l->from);
		d->learns |= g->use[from].learns;
	}
}

static void take_in(struct graph_node *d, const struct layer *next)
{
	const struct layer **to = next->kind == LAYER_RELU ? &d->relu
		: next->kind == LAYER_DROPOUT              ? &d->dropout
		: next->kind == LAYER_BATCHNORM            ? &d->norm
							   : &d->pool;

	*to = d->last = next;
}

int graph_next(struct graph *g, graph_takes takes, void *ctx, struct graph_node *ret)
{
	int at = 0;

	while (at < g->n && g->use[at].node != GRAPH_IMAGES)
		at++;
	if (at == g->n)
		return 0;
	*ret = (struct graph_node){ .layer = &g->layers[at], .last = &g->layers[at], .index = at };
	read_inputs(g, at, ret);
	for (;;) {
		g->use[at].node = g->nodes;
		g->use[at].learns = ret->learns;
		ret->readers = g->use[at].readers;
		if (ret->readers != 1 || !takes(ctx, ret, &g->layers[g->use[at].reader]))
			break;
		at = g->use[at].reader;
		take_in(ret, &g->layers[at]);
	}
	g->nodes++;
	return 1;
}
