/*
 * Softmax and cross-entropy of rows of logits, a warp a row.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define LOSS_THREADS 256
#define LOSS_WARPS   (LOSS_THREADS / WARP)

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
