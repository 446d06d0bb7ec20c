/*
 * One node of the backend `onednn` (graph.h). What computes it is a kind of node: oneDNN's
 * primitives, or loops of ours.
 *
 * It is made in three acts: node_make() settles operations and formats, node_plan() its memory,
 * node_bind() joins the two. oneDNN chooses the formats; an activation keeps its format from node
 * to node, and a reorder is made only where two disagree. A gradient that is added to another's is
 * computed aside first.
 */
#pragma once

#include "backend/backend.h"
#include "backend/dnn.h"
#include "backend/graph.h"
#include "backend/kernels.h"
#include "backend/lanes.h"
#include "optimiser/optimiser.h"

/* State that all nodes of an engine share. */
struct node_world {
	struct engine_config wish;
	struct node *nodes; /* those made so far */
	struct dnn dnn;
	const struct lanes *lanes; /* our own kernels for this CPU; NULL: there are none */
	int batch, threads;
	int rows;                /* of the batch at hand: what is beyond is nobody's */
	const struct step *step; /* at hand; NULL: predicting */
	int trains;
	int bf16;   /* activations, and weights where oneDNN reads them */
	int rounds; /* bf16 without instructions for it: floats, from weights with bf16's bits */
	int ranks;
	int first_row, all_rows; /* of the batch of all ranks */
	float *pixels;           /* the images, row-major */
	void *input;             /* the same; in bf16 a copy, if there is who reads it */
	int input_is_read;
	size_t params; /* floats in each block, padding included; nodes add theirs */
	float *param, *grad, *kept[OPTIMISER_STATES_MAX]; /* blocks of one layout */
	float *master; /* what is trained; param is its rounded copy or the same */
	float *states; /* canonical */
	void *scratch; /* as large as the largest node_scratch() */
	void *spare;   /* as large as the largest gradient that is computed aside */
};

struct node;
struct plan;

/* Does a node take over its follower? As graph_takes(). ctx is a struct node_world. */
int node_takes(void *ctx, const struct graph_node *d, const struct layer *next);

/* The functions of a kind of node; NULL where it needs none. */
struct node_kind {
	const char *name; /* for people: who computes it */
	int (*make)(struct node *d, struct node_world *w, struct mlr_error *err);
	void (*plan)(struct node *d, const struct node_world *w, struct plan *p);
	size_t (*scratch)(const struct node *d, const struct node_world *w); /* bytes */
	int (*bind)(struct node *d, struct node_world *w, struct mlr_error *err);
	int (*forward)(struct node *d, struct node_world *w, struct mlr_error *err); /* y */
	int (*backward)(struct node *d, struct node_world *w, struct mlr_error *err);
	/* Parameters have changed: renew copies of them. */
	void (*renew)(struct node *d, struct node_world *w);
	int lets_relu_pass; /* backward takes dy as it comes, before the ReLU behind */
	int adds_itself;    /* backward adds to gradients where the node says so */
	int pools;          /* it does the max-pooling behind, which d->pool is then */
};

/* A convolution or dense layer by oneDNN's primitives. What is empty is not needed. */
struct node_layer {
	struct dnn_format src; /* what forward reads */
	struct dnn_op forward, to_data, to_weights;
	struct dnn_op in_to_src, dsrc_to_din;      /* where the node before has another format */
	struct dnn_op param_to_weights;            /* where forward reads other weights */
	struct dnn_op weights_to_data, dw_to_grad; /* where a direction wants other weights */
	struct dnn_op dy_to_dst;                   /* where backward reads another gradient */
	void *src_copy, *dsrc, *weights, *data_weights, *dst;
	float *dw;
};

/* A convolution by winograd.h. */
struct node_wino {
	struct winograd sizes;
	float *u, *ut;
	uint32_t *pairs, *pairs_t; /* of u and ut, for training in bfloat16; NULL: in f32 */
};

struct node {
	const struct layer *layer;
	const struct layer *norm_behind, *pool; /* taken in, or NULL */
	const struct shape *out;                /* of y */
	const struct node_kind *kind;
	size_t index;         /* the layer's place in the network: names its dropout stream */
	struct node *from[2]; /* whose output it reads; NULL: the images */
	int inputs;           /* 1, or 2 of a sum */
	int adds[2]; /* that input's gradient is added to what another reader has written */
	int readers;
	int relu;     /* its output went through a ReLU: its own, or it is one */
	int learns;   /* its output's gradient is wanted */
	int pooled;   /* its only reader is a pooling node, which turns y into dy in place */
	size_t bytes; /* of memory of its own */
	int last;     /* its output is the logits: floats */

	struct dnn_format format;  /* of y and dy */
	struct kernel_image image; /* the same for loops of ours; block is 0 where it is none */
	void *y, *dy;

	/* Layers with parameters. */
	struct dnn_format weights; /* in the blocks */
	size_t biases;             /* 0: none */
	size_t at, bias_at, count; /* floats: where in the blocks, and how many to the next */
	struct dnn_op plain_to_weights, weights_to_plain;

	struct node_layer ops;
	struct node_wino wino;
	struct dense dense;
	float *packed;
	struct imageconv images;
	uint8_t *winner; /* of a convolution that pools */
	struct pooling pooling;
	struct kernel_dropout dropout;
	struct norm norm;
	struct dnn_op with_to_from, from_to_with; /* a sum of two formats, and back */
	void *with_copy;
};

/*
 * Make the next of w->nodes: its operations, and its place in the parameter blocks. Returns 0,
 * -ENOTSUP, -ENOMEM, naming the layer.
 */
int node_make(
	struct node *d, const struct graph_node *plan, struct node_world *w, struct mlr_error *err);
void node_done(struct node *d);

/* Bytes of scratch memory that its operations need, and of a gradient that it computes aside. */
size_t node_scratch(const struct node *d, const struct node_world *w);
size_t node_spare(const struct node *d);

/* Hand out bytes of a block, or with a NULL block only count them. */
struct plan {
	char *block;
	size_t used;
};

void *node_plan_take(struct plan *p, size_t bytes);

/* Take a node's memory. */
void node_plan(struct node *d, const struct node_world *w, struct plan *p);

/* Tell the operations where memory is. */
int node_bind(struct node *d, struct node_world *w, struct mlr_error *err);

/* Compute what dy makes of the parameters' gradients and those of what it reads. Returns 0, or -EIO
 * when another rank failed. */
int node_backward(struct node *d, struct node_world *w, struct mlr_error *err);

/* Copy one of the blocks' part out to a canonical parameter block, or in from canonical weights and
 * biases. */
void node_get(struct node *d, struct node_world *w, const float *block, float *params);
void node_set(struct node *d, struct node_world *w, float *block, const float *weights,
	const float *bias);

/* Weights and biases of a node with batch norm behind, as if that were part of the layer. */
void node_fold(const struct node *d, const float *params, const float *states, float *weights,
	float *bias);

/* --- for the kinds of nodes ------------------------------------------------------------------ */

extern const struct node_kind node_kind_layer, node_kind_wino, node_kind_image, node_kind_dense,
	node_kind_relu, node_kind_pool, node_kind_global, node_kind_dropout, node_kind_norm,
	node_kind_sum;

/* A batch, row-major. */
struct dnn_format node_plain_format(const struct node_world *w, const struct shape *s);

/* A shape of one image as that of a batch; returns the rank. */
int node_batch_dims(int batch, const struct shape *s, int dims[4]);

/* The dimensions of a layer's weights as oneDNN sees them: a dense layer behind an image reads it
 * as an image, in any format, which saves the flattening. Returns the rank. */
int node_weight_dims(const struct layer *l, int dims[4]);

/* Its input, the input's format, and where that one's gradient is to be written: NULL when nobody
 * wants it. */
void *node_x(const struct node *d, const struct node_world *w, int input);
struct dnn_format node_in(const struct node *d, const struct node_world *w, int input);
void *node_dx(const struct node *d, const struct node_world *w, int input);

/* Elements of y, padding included; and of the rows at hand alone. */
size_t node_count(const struct node *d);
size_t node_rows(const struct node *d, const struct node_world *w);

/* Make a reorder where two formats differ; say where its ends are, if there is one. */
int node_reorder(struct node_world *w, const struct dnn_format *from, const struct dnn_format *to,
	struct dnn_op *op, struct mlr_error *err);
void node_point(struct dnn_op *op, const void *from, void *to);

/* Memory for what a reorder writes in that format, or NULL where there is no reorder. */
void *node_plan_take_if(struct plan *p, const struct dnn_op *op, const struct dnn_format *f);

/* Bind an operation's arguments and its scratch memory; arguments without data are left out. */
int node_bind_op(struct node_world *w, struct dnn_op *op, const int *args, void *const *data, int n,
	struct mlr_error *err);

/* --- onednn_ceiling.c ------------------------------------------------------------------------ */

/* struct backend's ceiling(): time a matrix product by the engine's threads, in its dtype. */
int onednn_ceiling(struct engine *e, int n, struct engine_ceiling *ret, struct mlr_error *err);
