/*
 * Sums over ranks, as engines see them; dist/ implements it. Each rank computes its share of a
 * global batch.
 */
#pragma once

#include "base/base.h"

struct exchange {
	int rank, ranks;
	void *ctx;

	/*
	 * part [count] of this rank's gradients is final: sum it over the ranks in place, while the
	 * computation continues. Ranks must call it in the same order with the same counts. The
	 * engine must not touch the memory until wait() returns.
	 */
	void (*ready)(void *ctx, float *part, size_t count);

	/* Let communication advance; cheap. */
	void (*poll)(void *ctx);

	/* Wait until every part given to ready() has the sum over the ranks. Returns 0 or -EIO. */
	int (*wait)(void *ctx, struct mlr_error *err);

	/* Sum x [n] over the ranks now (batch norm's statistics, losses). Returns 0 or -EIO. */
	int (*sum)(void *ctx, double *x, size_t n, struct mlr_error *err);

	/* Copy rank 0's bytes to all (NCCL's unique id, a seed). Returns 0 or -EIO. */
	int (*broadcast)(void *ctx, void *x, size_t bytes, struct mlr_error *err);

	/*
	 * Check the other ranks while the engine waits for something else in which they take part,
	 * such as a GPU's sums. Call it repeatedly with turns 0, 1, … After some seconds it reports
	 * the rank that is waited for. Returns 0, or -EIO naming a rank that has ended.
	 */
	int (*idle)(void *ctx, unsigned *turns, struct mlr_error *err);

	/*
	 * Sums of the engine's own have failed, though every rank may be alive: the ranks make a
	 * new group. NULL where ranks do not come and go. Where they do, the group goes on with
	 * another engine after a failed step, so that step leaves this one's parameters as they
	 * were.
	 */
	void (*lost)(void *ctx);

	/* This rank's index on its node, and whether ready() accepts a GPU's memory. */
	int local_rank, local_ranks;
	int takes_device_memory;

	/* The ranks' layouts of gradients differ: sum them in layer.h's order. A CPU's engine reads
	 * it at every step. */
	int plain;
};
