/*
 * NCCL, opened when several ranks have a GPU each.
 * https://docs.nvidia.com/deeplearning/nccl, "API"
 */
#pragma once

#include "backend/cuda/device.h"
#include "backend/exchange.h"

#include <cuda_runtime_api.h>

struct nccl;

/*
 * Join the other ranks; every rank calls it, on its own device. The communicator is that of these
 * ranks: where ranks come and go, each generation makes one anew.
 *
 *   x   borrowed until nccl_close(); its idle() looks after the other ranks wherever NCCL waits for
 *       them, and its lost() hears what NCCL alone has met with
 *
 * Returns 0, or -ENOTSUP on every rank alike where one of them has no NCCL, shares its GPU with
 * another or could not join (the reason is told where it is known), -EIO.
 */
int nccl_open(const struct exchange *x, const struct device *device, struct nccl **ret,
	struct mlr_error *err);
/* Part from them. Graphs that sums were captured into must be gone, as NCCL waits for their end.
 * Where a sum has failed or ranks come and go it waits for nobody. */
void nccl_close(struct nccl **n);

/*
 * Wait for the stream, as sums on it wait for other ranks, and look after those meanwhile.
 *
 * Returns 0, or -EIO naming a rank that has ended, with NCCL's words or CUDA's. Then nothing more
 * comes of the sums on the stream: nccl_close() ends them there.
 */
int nccl_wait(struct nccl *n, cudaStream_t stream, struct mlr_error *err);

enum nccl_number { NCCL_FLOATS, NCCL_DOUBLES };

/* to [count] = the ranks' sum of from [count]; to may be from. Put on the stream. */
int nccl_sum(struct nccl *n, const void *from, void *to, size_t count, enum nccl_number is,
	cudaStream_t stream, struct mlr_error *err);
