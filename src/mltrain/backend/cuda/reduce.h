/*
 * Sums over ranks, an engine's side: gradients in buckets while the backward pass goes on, batch
 * norm's statistics at once.
 *
 * With NCCL all of it is put on streams, and a captured step has it in. Without, gradients go
 * through the exchange, from the device's memory where it takes that, else through pinned memory of
 * the host's; a step then waits on the host and is not captured.
 */
#ifndef MLT_BACKEND_CUDA_REDUCE_H
#define MLT_BACKEND_CUDA_REDUCE_H

#include "backend/cuda/engine.h"

/* Agree with the other ranks on how. With one rank there is nothing to do, and c->reduce is
 * NULL. */
int reduce_open(struct cuda *c, struct mlr_error *err);
void reduce_close(struct cuda *c);

/*
 * Wait until c->stream has done everything. Where sums on it wait for other ranks these are looked
 * after meanwhile: when one has ended it is named, and the engine takes no more steps.
 */
int reduce_wait(struct cuda *c, struct mlr_error *err);
int reduce_is_lost(const struct cuda *c);

/* May a step be captured? */
int reduce_is_on_streams(const struct cuda *c);

/* Sum a batch norm's m->local [n] over the ranks; sums gets where the result lies. */
int reduce_statistics(struct cuda *c, const struct node_memory *m, size_t n, const double **sums,
	struct mlr_error *err);

/* The parts of a node's gradients have been put on `stream`. Nodes come last first. */
int reduce_gradients(struct cuda *c, int node, cudaStream_t stream, struct mlr_error *err);

/* Nothing comes any more: c->stream goes on when all gradients are there. */
int reduce_finish(struct cuda *c, struct mlr_error *err);

#endif
