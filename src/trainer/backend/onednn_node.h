/*
 * One node of the backend `onednn`: a layer, with the ReLU behind it if it is one with parameters.
 *
 * It is made in three acts: node_make() settles operations and formats, node_plan() its memory,
 * node_bind() joins the two. oneDNN chooses the formats; an activation keeps its format from node
 * to node, and a reorder is made only where two disagree.
 */
#ifndef MLT_BACKEND_ONEDNN_NODE_H
#define MLT_BACKEND_ONEDNN_NODE_H

#include "trainer/backend/backend.h"
#include "trainer/backend/dnn.h"
#include "trainer/backend/kernels.h"
#include "trainer/backend/winograd.h"

/* What all nodes of an engine share. */
struct node_world {
	struct dnn dnn;
	int batch, threads;
	float *input;                  /* of the first node */
	size_t params; /* floats in each block, padding included; nodes add theirs */
	float *param, *velocity, *grad; /* three blocks of one layout */
	void *scratch;                 /* as large as the largest node_scratch() */
};

struct node {
	const struct layer *layer;
	size_t index; /* the layer's place in the network, which names its dropout stream */
	int relu;     /* its output went through a ReLU: its own, or it is one */
	int first;    /* nobody needs its input's gradient */
	int pooled;   /* a max-pooling node follows, which turns y into dy in place */

	struct dnn_format format; /* of y and dy */
	float *y, *dy;

	/* Layers with parameters. What is empty is not needed. */
	struct dnn_format in, src;       /* what comes in, what forward reads */
	struct dnn_format weights;       /* in the blocks */
	size_t at, bias_at, count;       /* floats: where in the blocks, and how many to the next */
	struct dnn_op forward, to_data, to_weights;
	struct dnn_op in_to_src, dsrc_to_din;    /* where a node before has another format */
	struct dnn_op weights_to_data, dw_to_grad; /* where a direction wants other weights */
	float *src_copy, *dsrc, *data_weights, *dw;
	struct dnn_op plain_to_weights, weights_to_plain;

	int fast; /* the convolution goes by winograd.h, and the operations above are empty */
	struct winograd wino;
	struct dnn_op times_u, to_dv, to_du; /* M = V U, dV = dM U', dU = V' dM */
	float *v, *m, *u, *du, *partial;     /* dV takes V's place, dM takes M's */

	struct kernel_pool pool;
	float *mask, *mask_plain; /* dropout; the second where the format is not row-major */
	struct dnn_op plain_to_mask;
};

/*
 * Make a node's operations and take its place in the parameter blocks. The caller has set layer,
 * index, relu, first, pooled and in. Returns 0, -ENOTSUP, -ENOMEM, naming the layer.
 */
int node_make(struct node *d, struct node_world *w, struct mlr_error *err);
void node_done(struct node *d);

/* Bytes of scratch memory that its operations need. */
size_t node_scratch(const struct node *d);

/* Hand out bytes of a block, or with a NULL block only count them. */
struct plan {
	char *block;
	size_t used;
};

void *plan_take(struct plan *p, size_t bytes);

/* Take a node's memory. */
void node_plan(struct node *d, const struct node_world *w, struct plan *p);

/* Tell the operations where memory is; d[-1] is the node before, unless d is the first. */
int node_bind(struct node *d, struct node_world *w, struct mlr_error *err);

/* y of x; step is NULL when predicting. And what dy makes of the parameters' and d[-1]'s gradient.
 */
void node_forward(struct node *d, struct node_world *w, const struct step *step);
void node_backward(struct node *d, struct node_world *w);

/* Copy one of the blocks' part out to, or in from, a canonical parameter block. */
void node_get(struct node *d, struct node_world *w, const float *block, float *params);
void node_set(struct node *d, struct node_world *w, float *block, const float *params);

/* Row-major, a whole batch. */
struct dnn_format node_plain_format(int batch, const struct shape *s);

#endif
