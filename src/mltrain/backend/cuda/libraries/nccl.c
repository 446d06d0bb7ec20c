#include "backend/cuda/libraries/nccl.h"

#include "backend/cuda/libraries/library.h"
#include "tensor/driver.h"

#include <nccl.h>

static struct {
	__typeof__(ncclGetUniqueId) *unique_id;
	__typeof__(ncclCommInitRankConfig) *init_rank;
	__typeof__(ncclCommDestroy) *destroy;
	__typeof__(ncclCommAbort) *abort;
	__typeof__(ncclCommGetAsyncError) *async_error;
	__typeof__(ncclAllReduce) *all_reduce;
	__typeof__(ncclGetErrorString) *error_string;
} lib;

#define FAILURES_MAX 3

static int failures; /* since the latest sum that was made */

struct nccl {
	ncclComm_t comm;
	const struct exchange *x;
	int failed; /* what waits on the device is to be ended there */
};

/* Nothing blocks: what a call has begun goes on in the background. */
static int check(ncclResult_t got, const char *call, int line, struct mlr_error *err)
{
	if (got == ncclSuccess || got == ncclInProgress)
		return 0;
	failures++;
	return mlr_fail(
		err, EIO, "%s: NCCL: %s (nccl.c, line %d)", call, lib.error_string(got), line);
}

#define NCCL(call) check((call), #call, __LINE__, err)

static int open_library(struct mlr_error *err)
{
	static const struct library_symbol symbols[] = {
		{ "ncclGetUniqueId", &lib.unique_id },
		{ "ncclCommInitRankConfig", &lib.init_rank },
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

	TRY(x->sum(x->ctx, &bad, 1, mine < 0 ? &why : err));
	if (mine < 0)
		return -ENOTSUP;
	return bad > 0 ? mlr_fail(err, ENOTSUP, "%.0f of the other ranks can't", bad) : 0;
}

/* Look after the other ranks, and then for what NCCL's threads have met with, or are still doing.
 */
static int look(struct nccl *n, unsigned *turns, ncclResult_t *state, struct mlr_error *err)
{
	TRY(n->x->idle(n->x->ctx, turns, err));
	TRY(NCCL(lib.async_error(n->comm, state)));
	return check(*state, "sum over the ranks", __LINE__, err);
}

/* Wait until what a call has begun is done, so that the next one may come. */
static int settle(struct nccl *n, ncclResult_t got, const char *call, struct mlr_error *err)
{
	unsigned turns = 0;
	int r = check(got, call, __LINE__, err);

	while (r == 0 && got == ncclInProgress)
		r = look(n, &turns, &got, err);
	return r;
}

/* Have ranks that come and go make a new group if a sum has failed. */
static int tell(struct nccl *n, int r)
{
	n->failed |= r < 0;
	if (r < 0 && n->x->lost)
		n->x->lost(n->x->ctx);
	return r;
}

int nccl_open(const struct exchange *x, const struct device *device, struct nccl **ret,
	struct mlr_error *err)
{
	struct mlr_error shares = MLR_ERROR_INIT;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct nccl *n;
	ncclUniqueId id;
	int r, own;

	r = open_library(err);
	if (r == 0 && failures >= FAILURES_MAX) {
		r = mlr_fail(err, ENOTSUP, "it has failed %d times", failures);
		if (failures++ == FAILURES_MAX)
			mlr_warning("cuda: NCCL has failed %d times; gradients are summed on the "
				    "host from now on",
				FAILURES_MAX);
	}
	own = has_own_device(x, device, &shares);
	if (own < 0 && own != -ENOTSUP)
		return mlr_pass(err, EIO, shares.text);
	if (r == 0 && own < 0)
		r = mlr_pass(err, ENOTSUP, shares.text);
	config.blocking = 0; /* a rank that has ended would be waited for without end */
	memset(&id, 0, sizeof(id));
	if (r == 0 && x->rank == 0)
		r = NCCL(lib.unique_id(&id));
	TRY(agree(x, r, err));
	TRY(x->broadcast(x->ctx, &id, sizeof(id), err));
	n = xcalloc(1, sizeof(*n));
	n->x = x;
	r = settle(n, lib.init_rank(&n->comm, x->ranks, id, x->rank, &config),
		"ncclCommInitRankConfig", err);
	n->failed = r < 0;
	if (r < 0)
		nccl_close(&n); /* so that no other rank waits for this one there */
	r = agree(x, r, err);
	if (n)
		n->failed = r < 0;
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
		((*n)->failed || (*n)->x->lost ||
			lib.async_error((*n)->comm, &broken) != ncclSuccess || broken))
		lib.abort((*n)->comm);
	else if ((*n)->comm)
		lib.destroy((*n)->comm);
	free(*n);
	*n = NULL;
}

int nccl_wait(struct nccl *n, cudaStream_t stream, struct mlr_error *err)
{
	ncclResult_t state;
	unsigned turns = 0;

	for (;;) {
		cudaError_t got = cudaStreamQuery(stream);
		int r = got == cudaErrorNotReady
			? tell(n, look(n, &turns, &state, err))
			: cuda_check(got, "cudaStreamQuery", __FILE__, __LINE__, err);

		n->failed |= r < 0;
		if (r < 0)
			return r;
		if (got == cudaSuccess) {
			failures = 0;
			return 0;
		}
	}
}

int nccl_sum(struct nccl *n, const void *from, void *to, size_t count, enum nccl_number is,
	cudaStream_t stream, struct mlr_error *err)
{
	ncclDataType_t type = is == NCCL_FLOATS ? ncclFloat : ncclDouble;

	return tell(n,
		settle(n, lib.all_reduce(from, to, count, type, ncclSum, n->comm, stream),
			"ncclAllReduce", err));
}
