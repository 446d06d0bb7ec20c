/*
 * The engine's parts, shared by the files that make them work: memory.c lays it out, params.c
 * converts parameters, upload.c brings batches, forward.c and backward.c put a step's kernels on a
 * stream, reduce.c sums over ranks, graph.c replays all that, cuda.c is the backend's table.
 *
 * Beside the engine: libraries/ calls NVIDIA's libraries, for which product.c prepares what layers
 * multiply; kernels/ has our own kernels for the rest, all that nvcc compiles.
 */
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/kernels.h"
#include "backend/cuda/node.h"
#include "backend/cuda/plan.h"
#include "backend/cuda/product.h"

#include <cuda_runtime_api.h>

struct reduce;

/* Arrays of a tensor, on the device. */
struct tensor_memory {
	void *y, *dy;
};

/* Arrays of a node; those it does not need are NULL. */
struct node_memory {
	uint8_t *winners; /* of a maximum */
	void *full;       /* before a maximum that was taken in: the output, then the gradient */
	void *temp;       /* a gradient that will be added to another */
	void *dw;         /* a convolution's gradient of weights, if they are not f32 */
	double *partial;  /* kernel_norm_sums()'s and kernel_channel_sums()'s */
	double *local, *sums; /* batch norm: local is this rank's */
	float *saved;
};

enum { TICKET_LOSS, TICKET_UPDATE, TICKET_SUMS, TICKETS };

#define GRAPHS_MAX 16
#define HELD_MAX   8
#define WORKSPACE  ((size_t)64 << 20) /* bytes that a library may use */

/* A captured call, and what it was captured for. */
struct captured {
	cudaGraphExec_t exec;
	const uint8_t *images;
	int augment, steps; /* steps: 0 predicts */
};

/* Images that lie on the device. */
struct held {
	const uint8_t *host;
	uint8_t *device;
	size_t count;
};

/* Numbers that change from call to call, copied to the device as one: the host's pinned side and
 * the device's. `now` comes first, so that every copy starts the count anew. */
struct upload {
	kernel_now *now;
	struct kernel_step *step; /* [slots] */
	uint32_t *index;          /* [slots][batch] */
	uint16_t *labels;         /* [slots][batch] */
	struct augment *augment;  /* [slots][batch] */
};

struct cuda {
	struct engine engine; /* first, so that one pointer serves both */
	const struct layer *layers;
	size_t layer_count, states; /* states: floats of the canonical block */
	enum dtype dtype;
	int trains, deterministic, optimiser;
	struct image_norm norm;
	const struct exchange *exchange; /* NULL: alone */
	int ranks;
	uint64_t first;  /* this rank's first row in the batch of all */
	double all_rows; /* of that batch */
	size_t pixels;   /* bytes of an image */
	int classes;

	struct device device;
	struct nodes nodes;
	struct product *product; /* [nodes.n]: the convolutions' and dense layers' */
	cudaStream_t stream;
	int overlaps; /* kernels of a graph come to the GPU while the one before runs */

	struct plan plan;
	void *block;
	struct tensor_memory *tensor;                  /* [nodes.tensors] */
	struct node_memory *node;                      /* [nodes.n] */
	float *param, *moment, *square, *grad, *state; /* moment, square: the optimiser's */
	float *before; /* param, moment and square before a step, if the exchange may lose ranks */
	void *copy;    /* the parameters as bf16 */
	struct kernel_part *parts; /* what kernel_update() reads */
	int part_count;
	struct kernel_result *result; /* [slots] */
	double *loss_partial, *update_partial;
	uint32_t *tickets; /* a TICKET_… each */
	void *workspace;   /* [WORKSPACE] the libraries' */

	int slots; /* steps that are uploaded at once */
	struct upload host, there;
	void *upload_host, *upload_there;
	size_t upload_plain, upload_bytes; /* without and with alterations */
	struct kernel_result *result_host; /* [slots], pinned */
	float *logits_host;                /* [batch][classes], pinned */

	struct held held[HELD_MAX];
	int held_count;
	uint8_t *staged_host, *staged; /* batches from elsewhere; NULL until there is one */
	int staged_slots;

	struct captured graph[GRAPHS_MAX];
	int graphs, graphs_off; /* graphs_off: calls of this engine can not be captured */
	int warm[2];            /* has it predicted, has it trained? */
	struct reduce *reduce;
};

static inline struct cuda *cuda_of(struct engine *e)
{
	return (struct cuda *)e;
}

/* --- memory.c --- */

/* Plan all arrays and take them. Returns 0, -ENOMEM with the bytes, -EIO. */
int cuda_memory_take(struct cuda *c, struct mlr_error *err);
void cuda_memory_give(struct cuda *c);

/* --- params.c --- */

/* Copy a block between the canonical layout on the host and the device's. */
int cuda_params_get(struct cuda *c, enum engine_block which, float *to, struct mlr_error *err);
int cuda_params_set(
	struct cuda *c, enum engine_block which, const float *from, struct mlr_error *err);

enum keep { KEEP, PUT_BACK };

/* Keep what a step changes, or put it back after one that failed. It does nothing where the
 * exchange loses no ranks. */
int cuda_params_keep(struct cuda *c, enum keep which, struct mlr_error *err);

/* --- upload.c --- */

int cuda_hold(struct cuda *c, const uint8_t *images, size_t count, struct mlr_error *err);

/*
 * Bring n batches and what their steps need (NULL: they are predicted) to the device.
 *
 *   images   gets the device's images, which the uploaded places are counted in
 *   altered  gets whether there are alterations
 *
 * Returns how many of them were taken, at least 1, or a negative errno.
 */
int cuda_upload(struct cuda *c, const struct batch *batches, const struct step *steps, int n,
	const uint8_t **images, int *altered, struct mlr_error *err);

/* --- forward.c, backward.c: put kernels on the stream --- */

struct kernel_source cuda_source(const struct cuda *c, const uint8_t *images, int altered);
/* train: 0 predicts. */
int cuda_forward(
	struct cuda *c, const struct kernel_source *from, int train, struct mlr_error *err);
/* Arguments of kernels for the sums of a convolution's output, for a batch norm, and for the
 * dropout of a layer (the node's own or one that it took in). */
struct kernel_norm cuda_channels(const struct cuda *c, const struct node *n);
struct kernel_norm cuda_norm(const struct cuda *c, const struct node *n);
struct kernel_dropout cuda_dropout(const struct cuda *c, const struct node *n, int layer);
/* Everything from the loss to the update. */
int cuda_backward(struct cuda *c, struct mlr_error *err);

/* Elements of a tensor, for the whole batch. */
static inline size_t cuda_count(const struct cuda *c, int tensor)
{
	return (size_t)c->engine.batch * c->nodes.tensor[tensor].count;
}

/* Write the parts that the update reads, for all steps to come. */
int cuda_parts_set(struct cuda *c, struct mlr_error *err);

/* --- graph.c --- */

/* Do n uploaded steps, or with n = 0 predict. */
int cuda_graph_run(
	struct cuda *c, const uint8_t *images, int altered, int n, struct mlr_error *err);
void cuda_graph_drop(struct cuda *c);

/* The weights and biases that a library computes with, which are of the dtype, biases of logits
 * f32. */
static inline void *cuda_weights(const struct cuda *c, const struct node *n)
{
	return c->copy ? (char *)c->copy + n->at * 2 : (char *)(c->param + n->at);
}

static inline void *cuda_biases(const struct cuda *c, const struct node *n)
{
	size_t at = n->at + n->bias_at;

	return c->copy && !c->nodes.tensor[n->y].is_float ? (char *)c->copy + at * 2
							  : (char *)(c->param + at);
}

/* Measure the speed of cuBLASLt and of a copy on the device (backend.h). */
int cuda_ceiling(struct cuda *c, int n, struct engine_ceiling *ret, struct mlr_error *err);

/* --- reduce.c --- */

/*
 * Sums over ranks, an engine's side: gradients in buckets while the backward pass goes on, batch
 * norm's statistics at once.
 *
 * With NCCL all of it is put on streams, and a captured step has it in. Without, gradients go
 * through the exchange, from the device's memory where it takes that, else through pinned memory of
 * the host's; a step then waits on the host and is not captured.
 */

/* Agree with the other ranks on how. With one rank there is nothing to do, and c->reduce is
 * NULL. */
int reduce_open(struct cuda *c, struct mlr_error *err);
void reduce_close(struct cuda *c);

/*
 * Wait until c->stream has done everything. Where sums on it wait for other ranks these are looked
 * after meanwhile: when one has ended it is named.
 */
int reduce_wait(struct cuda *c, struct mlr_error *err);

/* After a step that failed: end sums that wait on the device for other ranks. With NCCL the engine
 * takes no more steps. */
void reduce_lose(struct cuda *c);
int reduce_is_lost(const struct cuda *c);

/* May a step be captured? */
int reduce_is_on_streams(const struct cuda *c);

/* Sum a batch norm's m->local [n] over the ranks; sums gets where the result lies. */
int reduce_statistics(struct cuda *c, const struct node_memory *m, size_t n, const double **sums,
	struct mlr_error *err);

/* A node's gradients have been put on the stream. Nodes come last first. */
int reduce_gradients(struct cuda *c, int node, struct mlr_error *err);

/* Nothing comes any more: c->stream goes on when all gradients are there. */
int reduce_finish(struct cuda *c, struct mlr_error *err);
