/*
 * Softmax and cross-entropy of rows of logits, a warp a row; alone, or together with the last dense
 * layer and its whole backward pass (the head).
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/tile.cuh"

#define LOSS_THREADS 256
#define LOSS_WARPS   (LOSS_THREADS / WARP)
#define HEAD_CLASSES 32   /* a lane each */
#define HEAD_WEIGHTS 9216 /* floats of shared memory */
#define HEAD_ROWS    64   /* that a block has in hand */
#define HEAD_LEAST   2    /* rows of a block, where there are more */

/* A row's highest logit, and where softmax's denominator stands. */
struct row_loss {
	float top;
	double sum; /* of exp(x - top) */
	bool right;
};

/* The loss of a row whose logit k is at(k); every lane gets the same. */
template <class AT> static __device__ struct row_loss lose_row(int classes, int label, AT at)
{
	int lane = (int)threadIdx.x % WARP, best = classes, nan = 0;
	struct row_loss ret = { -INFINITY, 0, false };

	for (int k = lane; k < classes; k += WARP) {
		float x = at(k);

		nan |= x != x;
		if (best == classes || x > ret.top) {
			ret.top = x;
			best = k;
		}
	}
	for (int step = WARP / 2; step; step /= 2) {
		float other = __shfl_xor_sync(EVERYONE, ret.top, step);
		int place = __shfl_xor_sync(EVERYONE, best, step);

		nan |= __shfl_xor_sync(EVERYONE, nan, step);
		if (other > ret.top || (other == ret.top && place < best)) {
			ret.top = other;
			best = place;
		}
	}
	for (int k = lane; k < classes; k += WARP)
		ret.sum += (double)expf(at(k) - ret.top);
	ret.sum = reduce_warp(ret.sum);
	if (nan)
		ret.sum = NAN;
	ret.right = !nan && best == label;
	return ret;
}

static __device__ __forceinline__ double cross_entropy(const struct row_loss &l, float logit)
{
	return log(l.sum) + (double)l.top - (double)logit;
}

/* Blocks' losses and counts into the step's result. */
static __device__ void finish_loss(
	const struct kernel_loss &d, double sums[2], unsigned char *shared)
{
	if (!reduce_grid<2>(sums, (double *)(void *)shared, d.partial, d.ticket) || threadIdx.x)
		return;
	d.result[d.now ? *d.now : 0].cross_entropy = sums[0] / d.rows;
	d.result[d.now ? *d.now : 0].wrong = (int32_t)sums[1];
}

/* --- the loss alone --- */

template <class T>
__global__ void __launch_bounds__(LOSS_THREADS)
	loss(const struct kernel_loss d, const float *logits, void *dx)
{
	behind_previous();

	const uint16_t *labels = d.labels + (size_t)(d.now ? *d.now : 0) * (size_t)d.rows;
	int lane = (int)threadIdx.x % WARP, step = (int)gridDim.x * LOSS_WARPS;
	double sums[2] = {};

	for (int row = (int)(blockIdx.x * LOSS_WARPS + threadIdx.x / WARP); row < d.rows;
		row += step) {
		const float *x = logits + (size_t)row * (size_t)d.classes;
		int label = labels[row];
		struct row_loss l = lose_row(d.classes, label, [&](int k) { return x[k]; });

		for (int k = lane; dx && k < d.classes; k += WARP)
			store_one((T *)dx + (size_t)row * (size_t)d.classes + k,
				(float)(((double)expf(x[k] - l.top) / l.sum - (k == label)) /
					d.all_rows));
		if (lane == 0) {
			sums[0] += cross_entropy(l, x[label]);
			sums[1] += !l.right;
		}
	}
	finish_loss(d, sums, shared_memory());
}

cudaError_t kernel_loss(const struct kernel_loss *d, enum dtype dtype, const float *logits,
	void *dx, cudaStream_t stream)
{
	unsigned blocks = (unsigned)(d->rows + LOSS_WARPS - 1) / LOSS_WARPS;

	if (d->rows < 1 || d->classes < 1)
		return cudaErrorInvalidValue;
	blocks = blocks > KERNEL_LOSS_BLOCKS ? KERNEL_LOSS_BLOCKS : blocks;
	return dtype == DTYPE_BF16
		? launch(loss<bf16>, blocks, LOSS_THREADS, REDUCE_BYTES(2), stream, *d, logits, dx)
		: launch(loss<float>, blocks, LOSS_THREADS, REDUCE_BYTES(2), stream, *d, logits,
			  dx);
}

/* --- the head --- */

/*
 * A block takes rows_each rows. A team of warps shares a row, each with a part of the inputs, so
 * that a small batch keeps all warps of many blocks busy.
 */
struct head {
	struct kernel_loss d;
	int inputs, rows_each, team; /* LOSS_WARPS = rows at once * team */
	const void *x;
	const float *w, *bias;
	struct kernel_before before;
	void *dx;
	size_t stride;
	float *partial, *logits;
};

/* What a block has in shared memory behind reduce_grid()'s. */
struct head_share {
	float part[LOSS_WARPS][HEAD_CLASSES];  /* each warp's share of its row's logits */
	float slope[LOSS_WARPS][HEAD_CLASSES]; /* and its row's gradient of them */
	float slopes[HEAD_ROWS][HEAD_CLASSES]; /* of all rows in hand */
	float w[];                             /* [classes][inputs] */
};

/*
 * A row's logits of a warp's part of the inputs: lane k gets class k's, a lane beyond the last what
 * nobody reads. A GROUP of classes at once, whose sums over the warp then run beside each other and
 * not one after the other.
 */
template <class T>
static __device__ float head_logit(const struct head &h, const float *w, const T *x)
{
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	float ret = 0;

	for (int k0 = 0; k0 < h.d.classes; k0 += GROUP) {
		float sum[GROUP] = {};
		int at[GROUP]; /* of a class's weights; there is always one to read */

#pragma unroll
		for (int k = 0; k < GROUP; k++)
			at[k] = (k0 + k < h.d.classes ? k0 + k : k0) * h.inputs;
#pragma unroll 4
		for (int j = warp % h.team * WARP + lane; j < h.inputs; j += h.team * WARP) {
			float xj = to_float(x[j]);

#pragma unroll
			for (int k = 0; k < GROUP; k++)
				sum[k] += xj * w[at[k] + j];
		}
#pragma unroll
		for (int k = 0; k < GROUP; k++) {
			float all = reduce_warp(sum[k]);

			ret = lane == k0 + k ? all : ret;
		}
	}
	return ret;
}

/* The team's parts together, and the bias. Every thread of a block whose teams are several warps
 * comes here. */
static __device__ float team_logit(const struct head &h, struct head_share *s, float part)
{
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;

	if (h.team > 1) {
		s->part[warp][lane] = part;
		__syncthreads();
		part = 0;
		for (int i = 0; i < h.team; i++)
			part += s->part[warp / h.team * h.team + i][lane];
	}
	return lane < h.d.classes ? part + h.bias[lane] : part;
}

/* One row behind its logits: its loss, their gradient into the shared slopes, its input's into dx.
 * The team's first warp speaks for it. */
template <class T>
static __device__ void head_row(const struct head &h, struct head_share *s, float logit, int row,
	float *slopes, double sums[2])
{
	size_t now = h.d.now ? *h.d.now : 0;
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, of = warp % h.team,
	    label = h.d.labels[now * (size_t)h.d.rows + (size_t)row];
	float *slope = s->slope[warp], of_label = __shfl_sync(EVERYONE, logit, label % WARP);
	struct row_loss l = lose_row(h.d.classes, label, [&](int) { return logit; });

	if (lane < h.d.classes) {
		slope[lane] = (float)(((double)expf(logit - l.top) / l.sum - (lane == label)) /
			h.d.all_rows);
		if (of == 0)
			slopes[lane] = slope[lane];
		if (of == 0 && h.logits)
			h.logits[(size_t)row * (size_t)h.d.classes + lane] = logit;
	}
	if (of == 0 && lane == 0) {
		sums[0] += cross_entropy(l, of_label);
		sums[1] += !l.right;
	}
	__syncwarp();
	for (int j = of * WARP + lane; j < h.inputs; j += h.team * WARP) {
		size_t at = (size_t)row * (size_t)h.inputs + (size_t)j;
		float sum = 0;

		for (int k = 0; k < h.d.classes; k++)
			sum += slope[k] * s->w[k * h.inputs + j];
		store_one((T *)h.dx + at, finish_before(&h.before, (T *)h.dx, at, sum));
	}
}

/* Rows from row0 on, as many as there are teams at once. */
template <class T>
static __device__ void head_rows(
	const struct head &h, struct head_share *s, int row0, int rows, double sums[2])
{
	int teams = LOSS_WARPS / h.team;

	/* With several warps a team there are no more rows than teams: all meet at the barrier. */
	for (int r = (int)threadIdx.x / WARP / h.team; r < rows || r < teams; r += teams) {
		bool is = r < rows;
		int row = row0 + r;
		const T *x = (const T *)h.x + (size_t)row * (size_t)h.inputs;
		float logit = team_logit(h, s, is ? head_logit(h, s->w, x) : 0);

		if (is)
			head_row<T>(h, s, logit, row, s->slopes[r], sums);
	}
}

static __device__ __forceinline__ void add_to(float *to, bool first, float x)
{
	*to = first ? x : *to + x;
}

/* The block's part of the gradient of weights and biases: rows from row0, on top of those
 * before. */
template <class T>
static __device__ void head_weights(
	const struct head &h, int row0, int rows, bool first, const float *slopes)
{
	float *to = h.partial + blockIdx.x * h.stride;

	for (int j = (int)threadIdx.x; j < h.inputs; j += LOSS_THREADS)
		for (int k0 = 0; k0 < h.d.classes; k0 += GROUP) {
			float sum[GROUP] = {};

			for (int r = 0; r < rows; r++) {
				float x = to_float(
					((const T *)h.x)[(size_t)(row0 + r) * (size_t)h.inputs +
						(size_t)j]);

#pragma unroll
				for (int k = 0; k < GROUP; k++)
					sum[k] += slopes[r * HEAD_CLASSES + k0 + k] * x;
			}
#pragma unroll
			for (int k = 0; k < GROUP; k++)
				if (k0 + k < h.d.classes)
					add_to(to + (size_t)(k0 + k) * (size_t)h.inputs + j, first,
						sum[k]);
		}
	if ((int)threadIdx.x < h.d.classes) {
		float sum = 0;

		for (int r = 0; r < rows; r++)
			sum += slopes[r * HEAD_CLASSES + threadIdx.x];
		add_to(to + (size_t)h.d.classes * (size_t)h.inputs + threadIdx.x, first, sum);
	}
}

/* Bytes of shared memory: sums, slopes, weights. */
static size_t head_bytes(int classes, int inputs)
{
	return REDUCE_BYTES(2) + sizeof(double) + sizeof(struct head_share) +
		(size_t)classes * (size_t)inputs * sizeof(float);
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) head(const struct head h)
{
	behind_previous();

	unsigned char *shared = shared_memory();
	struct head_share *s =
		(struct head_share *)(void *)(shared + REDUCE_BYTES(2) + sizeof(double));
	int from = (int)blockIdx.x * h.rows_each, to = from + h.rows_each;
	double sums[2] = {};

	to = to > h.d.rows ? h.d.rows : to;
	for (int i = (int)threadIdx.x; i < h.d.classes * h.inputs; i += LOSS_THREADS)
		s->w[i] = h.w[i];
	for (int i = (int)threadIdx.x; i < HEAD_ROWS * HEAD_CLASSES; i += LOSS_THREADS)
		s->slopes[i / HEAD_CLASSES][i % HEAD_CLASSES] = 0;
	for (int row = from; row < to; row += HEAD_ROWS) {
		int rows = to - row < HEAD_ROWS ? to - row : HEAD_ROWS;

		__syncthreads();
		head_rows<T>(h, s, row, rows, sums);
		__syncthreads();
		head_weights<T>(h, row, rows, row == from, &s->slopes[0][0]);
	}
	finish_loss(h.d, sums, shared);
}

int kernel_head_fits(int classes, int inputs)
{
	return classes >= 1 && classes <= HEAD_CLASSES && inputs >= 1 &&
		(long long)classes * inputs <= HEAD_WEIGHTS;
}

int kernel_head_splits(int rows)
{
	int each = (rows + KERNEL_SM - 1) / KERNEL_SM;

	/* Every block brings all weights, and leaves kernel_update() one more part to add. */
	each = each < HEAD_LEAST ? HEAD_LEAST : each;
	return (rows + each - 1) / each;
}

cudaError_t kernel_head(const struct kernel_loss *d, enum dtype dtype, int inputs, const void *x,
	const float *w, const float *bias, const struct kernel_before *before, void *dx, int splits,
	size_t stride, float *partial, float *logits, cudaStream_t stream)
{
	struct head h = { *d, inputs, (d->rows + splits - 1) / splits, 1, x, w, bias, *before, dx,
		stride, partial, logits };
	size_t bytes = head_bytes(d->classes, inputs);

	if (d->rows < 1 || !kernel_head_fits(d->classes, inputs) || splits < 1 ||
		splits > KERNEL_LOSS_BLOCKS || (splits - 1) * h.rows_each >= d->rows)
		return cudaErrorInvalidValue;
	while (2 * h.team * h.rows_each <= LOSS_WARPS)
		h.team *= 2;
	return dtype == DTYPE_BF16
		? launch(head<bf16>, (unsigned)splits, LOSS_THREADS, bytes, stream, h)
		: launch(head<float>, (unsigned)splits, LOSS_THREADS, bytes, stream, h);
}
