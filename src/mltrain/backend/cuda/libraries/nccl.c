#include "backend/cuda/libraries/nccl.h"

#include "backend/cuda/libraries/library.h"
#include "tensor/driver.h"

#include <nccl.h>

static struct {
	__typeof__(ncclGetUniqueId) *unique_id;
	__typeof__(ncclCommInitRank) *init_rank;
	__typeof__(ncclCommDestroy) *destroy;
	__typeof__(ncclCommAbort) *abort;
	__typeof__(ncclCommGetAsyncError) *async_error;
	__typeof__(ncclAllReduce) *all_reduce;
	__typeof__(ncclGetErrorString) *error_string;
} lib;

struct nccl {
	ncclComm_t comm;
	int failed; /* what waits on the device is to be ended there */
};

static int check(ncclResult_t got, const char *call, int line, struct mlr_error *err)
{
	if (got == ncclSuccess)
		return 0;
	return mlr_fail(
		err, EIO, "%s: NCCL: %s (nccl.c, line %d)", call, lib.error_string(got), line);
}

#define NCCL(call) check((call), #call, __LINE__, err)

static int open_library(struct mlr_error *err)
{
	static const struct library_symbol symbols[] = {
		{ "ncclGetUniqueId", &lib.unique_id },
		{ "ncclCommInitRank", &lib.init_rank },
		{ "ncclCommDestroy", &lib.destroy },
		{ "ncclCommAbort", &lib.abort },
		{ "ncclCommGetAsyncError", &lib.async_error },
		{ "ncclAllReduce", &lib.all_reduce },
		{ "ncclGetErrorString", &lib.error_string },
	};

	/* It wants the management library, by the linker alone, and does not join without. */
	driver_library_open("", "libnvidia-ml.so.1", NULL);
	return library_open("libnccl.so.2", symbols, ARRAY_LEN(symbols), err);
}

/*
 * Does this rank have a GPU of its own? Counting does not tell: each of a node's ranks may be shown
 * one GPU and all of them others (srun --gpus-per-task), or all the same one. Every rank calls it.
 */
static int has_own_device(const struct exchange *x, const struct device *d, struct mlr_error *err)
{
	auto_free double *all = xcalloc((size_t)x->ranks, sizeof(*all));

	all[x->rank] = (double)d->id;
	TRY(x->sum(x->ctx, all, (size_t)x->ranks, err));
	for (int i = 0; i < x->ranks; i++)
		if (i != x->rank && all[i] == (double)d->id)
			return mlr_fail(err, ENOTSUP, "ranks %d and %d share a GPU", x->rank, i);
	return 0;
}

/* Every rank gets the same answer: is one of them not well? */
static int agree(const struct exchange *x, int mine, struct mlr_error *err)
{
	double bad = mine < 0;
	struct mlr_error why = MLR_ERROR_INIT;

	TRY(x->sum(x->ctx, &bad, 1, &why));
	if (mine < 0)
		return -ENOTSUP;
	return bad > 0 ? mlr_fail(err, ENOTSUP, "%.0f of the other ranks can't", bad) : 0;
}

int nccl_open(const struct exchange *x, const struct device *device, struct nccl **ret,
	struct mlr_error *err)
{
	struct mlr_error shares = MLR_ERROR_INIT;
	struct nccl *n;
	ncclUniqueId id;
	int r, own;

	r = open_library(err);
	own = has_own_device(x, device, &shares);
	if (own < 0 && own != -ENOTSUP)
		return mlr_pass(err, EIO, shares.text);
	if (r == 0 && own < 0)
		r = mlr_pass(err, ENOTSUP, shares.text);
	memset(&id, 0, sizeof(id));
	if (r == 0 && x->rank == 0)
		r = NCCL(lib.unique_id(&id));
	TRY(agree(x, r, err));
	TRY(x->broadcast(x->ctx, &id, sizeof(id), err));
	n = xcalloc(1, sizeof(*n));
	r = NCCL(lib.init_rank(&n->comm, x->ranks, id, x->rank));
	if (r < 0)
		n->comm = NULL;
	r = agree(x, r, err);
	if (r < 0)
		nccl_close(&n);
	else
		*ret = n;
	return r;
}

void nccl_close(struct nccl **n)
{
	ncclResult_t broken = ncclSuccess;

	if (!*n)
		return;
	if ((*n)->comm &&
		((*n)->failed || lib.async_error((*n)->comm, &broken) != ncclSuccess || broken))
		lib.abort((*n)->comm);
	else if ((*n)->comm)
		lib.destroy((*n)->comm);
	free(*n);
	*n = NULL;
}

/* Return an error that NCCL's threads or the other ranks have met with meanwhile. */
static int look(struct nccl *n, const struct exchange *x, unsigned *turns, struct mlr_error *err)
{
	ncclResult_t broken = ncclSuccess;

	TRY(x->idle(x->ctx, turns, err));
	TRY(NCCL(lib.async_error(n->comm, &broken)));
	return check(broken, "sum over the ranks", __LINE__, err);
}

int nccl_wait(struct nccl *n, const struct exchange *x, cudaStream_t stream, struct mlr_error *err)
{
	unsigned turns = 0;

	for (;;) {
		cudaError_t got = cudaStreamQuery(stream);
		int r = got == cudaErrorNotReady
			? look(n, x, &turns, err)
			: cuda_check(got, "cudaStreamQuery", __FILE__, __LINE__, err);

		n->failed = r < 0;
		if (r < 0 || got == cudaSuccess)
			return r;
	}
}

int nccl_sum(struct nccl *n, const float *from, float *to, size_t count, cudaStream_t stream,
	struct mlr_error *err)
{
	return NCCL(lib.all_reduce(from, to, count, ncclFloat, ncclSum, n->comm, stream));
}

int nccl_sum_double(struct nccl *n, const double *from, double *to, size_t count,
	cudaStream_t stream, struct mlr_error *err)
{
	return NCCL(lib.all_reduce(from, to, count, ncclDouble, ncclSum, n->comm, stream));
}
