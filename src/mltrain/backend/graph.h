/*
 * A network's layers as the nodes that an engine computes: each is a layer with those behind it
 * that the engine does on the way, such as a ReLU. A layer is taken into a node only if nothing
 * else reads what lies between.
 *
 * Several nodes may read one. Their gradients add up: the last of them, first on the way back,
 * writes; the others add theirs.
 */
#pragma once

#include "backend/layer.h"

#define GRAPH_IMAGES (-1)

struct graph_node {
	const struct layer *layer, *last;                 /* the first and the last one of it */
	const struct layer *norm, *relu, *dropout, *pool; /* taken in, or NULL */
	int index;   /* the first layer's: names its dropout stream */
	int inputs;  /* 1, or 2 of a sum */
	int from[2]; /* nodes whose outputs it reads, or GRAPH_IMAGES */
	int adds[2]; /* that input's gradient is added to what another reader has written */
	int readers;
	int learns; /* its output's gradient is wanted: a layer up to it has parameters */
};

struct graph {
	const struct layer *layers;
	struct graph_use *use; /* [n] of each layer, owned */
	int n, nodes;
};

/* May the node, as it is so far, take in the layer that alone reads it? */
typedef int (*graph_takes)(void *ctx, const struct graph_node *d, const struct layer *next);

/* Begin with layers[n], which stay the caller's. */
void graph_open(struct graph *g, const struct layer *layers, size_t n);
void graph_close(struct graph *g);

/* Find the next node, which reads only those before it. Returns 1, or 0 after the last. */
int graph_next(struct graph *g, graph_takes takes, void *ctx, struct graph_node *ret);
