#include "backend/cuda/engine.h"

#include "backend/cuda/libraries/nccl.h"

#define BUCKET_MIN  ((size_t)1 << 18) /* floats: 1 MiB, from which on NCCL uses a link well */
#define BUCKETS_MAX 64

struct bucket {
	size_t at, count; /* in c->grad */
	cudaEvent_t done; /* it lies where the exchange takes it from */
};

struct reduce {
	struct nccl *nccl;   /* NULL: by the exchange */
	int lost;            /* it was by NCCL, which can do no more */
	cudaStream_t stream; /* beside the backward pass; c->stream itself with batch norms */
	cudaEvent_t made, summed;
	float *host; /* [elements] pinned, where the exchange takes no device memory */
	struct bucket bucket[BUCKETS_MAX];
	int buckets;
	size_t low, high; /* gradients that wait for company: [low, high) of c->grad */
};

int reduce_is_lost(const struct cuda *c)
{
	return c->reduce && c->reduce->lost;
}

int reduce_is_on_streams(const struct cuda *c)
{
	return !c->reduce || c->reduce->nccl != NULL;
}

static int open_exchange(struct cuda *c, struct reduce *r, struct mlr_error *err)
{
	for (int i = 0; i < BUCKETS_MAX; i++)
		CU_TRY(cudaEventCreateWithFlags(&r->bucket[i].done, cudaEventDisableTiming));
	if (!c->exchange->takes_device_memory)
		CU_TRY(cudaMallocHost((void **)&r->host, (c->nodes.elements + 1) * sizeof(float)));
	return 0;
}

int reduce_open(struct cuda *c, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	struct reduce *r;
	int got;

	if (c->ranks == 1)
		return 0;
	r = c->reduce = xcalloc(1, sizeof(*r));
	CU_TRY(cudaEventCreateWithFlags(&r->made, cudaEventDisableTiming));
	CU_TRY(cudaEventCreateWithFlags(&r->summed, cudaEventDisableTiming));
	got = nccl_open(c->exchange, &c->device, &r->nccl, &why);
	if (got == -ENOTSUP && c->exchange->rank == 0)
		mlr_debug("cuda: gradients are summed on the host and not by NCCL: %s", why.text);
	if (got < 0 && got != -ENOTSUP) {
		*err = why;
		return got;
	}
	/* A communicator's sums must be in one order on all ranks, which two streams do not
	 * give. */
	if (c->nodes.norms || !r->nccl)
		r->stream = c->stream;
	else
		CU_TRY(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	return r->nccl ? 0 : open_exchange(c, r, err);
}

void reduce_close(struct cuda *c)
{
	struct reduce *r = c->reduce;

	if (!r)
		return;
	nccl_close(&r->nccl);
	for (int i = 0; i < BUCKETS_MAX; i++)
		if (r->bucket[i].done)
			cudaEventDestroy(r->bucket[i].done);
	if (r->made)
		cudaEventDestroy(r->made);
	if (r->summed)
		cudaEventDestroy(r->summed);
	if (r->stream && r->stream != c->stream)
		cudaStreamDestroy(r->stream);
	cudaFreeHost(r->host);
	free(r);
	c->reduce = NULL;
}

int reduce_wait(struct cuda *c, struct mlr_error *err)
{
	if (!c->reduce || !c->reduce->nccl)
		return CU(cudaStreamSynchronize(c->stream));
	return nccl_wait(c->reduce->nccl, c->stream, err);
}

void reduce_lose(struct cuda *c)
{
	if (!c->reduce || !c->reduce->nccl)
		return;
	cuda_graph_drop(c);
	nccl_close(&c->reduce->nccl);
	c->reduce->lost = 1;
}

/* By the exchange, which waits. */
static int statistics_by_host(
	struct cuda *c, const struct node_memory *m, size_t n, struct mlr_error *err)
{
	auto_free double *x = xcalloc(n, sizeof(*x));

	CU_TRY(cudaMemcpyAsync(x, m->local, n * sizeof(*x), cudaMemcpyDeviceToHost, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream));
	TRY(c->exchange->sum(c->exchange->ctx, x, n, err));
	CU_TRY(cudaMemcpyAsync(m->sums, x, n * sizeof(*x), cudaMemcpyHostToDevice, c->stream));
	CU_TRY(cudaStreamSynchronize(c->stream)); /* x ends here */
	return 0;
}

int reduce_statistics(struct cuda *c, const struct node_memory *m, size_t n, const double **sums,
	struct mlr_error *err)
{
	*sums = c->reduce ? m->sums : m->local;
	if (!c->reduce)
		return 0;
	if (c->reduce->nccl)
		return nccl_sum(
			c->reduce->nccl, m->local, m->sums, n, NCCL_DOUBLES, c->stream, err);
	return statistics_by_host(c, m, n, err);
}

/* Send off what has gathered. */
static int flush(struct cuda *c, struct mlr_error *err)
{
	struct reduce *r = c->reduce;
	float *grad = c->grad + r->low;
	size_t count = r->high - r->low;
	struct bucket *b;

	if (!count)
		return 0;
	r->high = r->low;
	if (r->nccl) {
		if (r->stream != c->stream) {
			CU_TRY(cudaEventRecord(r->made, c->stream));
			CU_TRY(cudaStreamWaitEvent(r->stream, r->made, 0));
		}
		return nccl_sum(r->nccl, grad, grad, count, NCCL_FLOATS, r->stream, err);
	}
	b = &r->bucket[r->buckets++];
	b->at = r->low;
	b->count = count;
	if (r->host)
		CU_TRY(cudaMemcpyAsync(r->host + b->at, grad, count * sizeof(float),
			cudaMemcpyDeviceToHost, c->stream));
	CU_TRY(cudaEventRecord(b->done, c->stream));
	return 0;
}

int reduce_gradients(struct cuda *c, int node, struct mlr_error *err)
{
	const struct node *n = &c->nodes.node[node];
	struct reduce *r = c->reduce;

	if (!r || !n->weights)
		return 0;
	if (r->high == r->low)
		r->high = n->at + n->count;
	r->low = n->at; /* parameters lie in the order of nodes, so this is right before the rest */
	if (r->high - r->low < BUCKET_MIN || (!r->nccl && r->buckets == BUCKETS_MAX - 1))
		return 0;
	return flush(c, err);
}

/* Hand the buckets to the exchange as they come, and bring their sums back. */
static int finish_by_exchange(struct cuda *c, struct mlr_error *err)
{
	const struct exchange *x = c->exchange;
	struct reduce *r = c->reduce;

	for (int i = 0; i < r->buckets; i++) {
		struct bucket *b = &r->bucket[i];

		CU_TRY(cudaEventSynchronize(b->done));
		x->ready(x->ctx, (r->host ? r->host : c->grad) + b->at, b->count);
		x->poll(x->ctx);
	}
	TRY(x->wait(x->ctx, err));
	for (int i = 0; i < r->buckets && r->host; i++) {
		struct bucket *b = &r->bucket[i];

		CU_TRY(cudaMemcpyAsync(c->grad + b->at, r->host + b->at, b->count * sizeof(float),
			cudaMemcpyHostToDevice, c->stream));
	}
	r->buckets = 0;
	return 0;
}

int reduce_finish(struct cuda *c, struct mlr_error *err)
{
	struct reduce *r = c->reduce;

	if (!r)
		return 0;
	TRY(flush(c, err));
	if (!r->nccl)
		return finish_by_exchange(c, err);
	if (r->stream == c->stream)
		return 0;
	CU_TRY(cudaEventRecord(r->summed, r->stream));
	CU_TRY(cudaStreamWaitEvent(c->stream, r->summed, 0));
	return 0;
}
