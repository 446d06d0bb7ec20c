/*
 * Which nodes the backend `onednn` makes of a network's layers: one a layer, but a ReLU, a pooling
 * or, when predicting, a batch norm that alone reads a layer is part of that one where it can be.
 */
#ifndef MLT_BACKEND_ONEDNN_GRAPH_H
#define MLT_BACKEND_ONEDNN_GRAPH_H

#include "backend/onednn_node.h"

struct graph {
	struct node *nodes; /* [n], in an order in which each reads only what lies before it */
	size_t n;
};

/* Make nodes of layers[n]. Returns 0, or what node_make() gives; graph_done() clears either. */
int graph_make(struct graph *g, struct node_world *w, const struct layer *layers, size_t n,
	struct mlr_error *err);
void graph_done(struct graph *g);

#endif
