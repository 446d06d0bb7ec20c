/*
 * How an engine trains together with those of other ranks: the arithmetic's side of dist/. Each
 * rank computes its share of a global batch; what they must agree on is summed here.
 */
#ifndef MLT_BACKEND_EXCHANGE_H
#define MLT_BACKEND_EXCHANGE_H

#include "base/error.h"

#include <stddef.h>

struct exchange {
	int rank, ranks;
	void *ctx;

	/*
	 * part [count] of this rank's gradients is final: it may be summed over the ranks, in
	 * place, from now on, beside the computation. Ranks call it in the same order with the
	 * same counts. The memory stays the engine's and is not touched until wait() returns.
	 */
	void (*ready)(void *ctx, float *part, size_t count);

	/* A good moment to let communication advance; cheap. */
	void (*poll)(void *ctx);

	/* Wait until every part given to ready() holds the ranks' sum. Returns 0 or -EIO. */
	int (*wait)(void *ctx, struct mlr_error *err);

	/* Sum x [n] over the ranks now (batch norm's statistics, losses). Returns 0 or -EIO. */
	int (*sum)(void *ctx, double *x, size_t n, struct mlr_error *err);

	/* Copy rank 0's bytes to all (NCCL's unique id, a seed). Returns 0 or -EIO. */
	int (*broadcast)(void *ctx, void *x, size_t bytes, struct mlr_error *err);

	/*
	 * Something else is waited for that the other ranks take part in, as a GPU's sums, and is
	 * not there yet: look after them now and then. To be called again and again, turns being
	 * 0 at first. Who is waited for is told after some seconds. Returns 0, or -EIO naming a
	 * rank that has ended.
	 */
	int (*idle)(void *ctx, unsigned *turns, struct mlr_error *err);

	/* This rank's place among those on its node, and may ready() be given a GPU's memory? */
	int local_rank, local_ranks;
	int takes_device_memory;
};

#endif
