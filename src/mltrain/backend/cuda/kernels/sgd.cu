/*
 * Sums of partial gradients, and the update of all parameters in one launch.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define SGD_THREADS 256
#define SGD_SPLITS  16 /* from which on lanes share a sum */
#define SGD_LANES   8

static __device__ __forceinline__ float sum_parts(
	const float *part, int splits, size_t stride, size_t i)
{
	float sum = 0;

	for (int s = 0; s < splits; s++)
		sum += part[(size_t)s * stride + i];
	return sum;
}

__global__ void __launch_bounds__(SGD_THREADS)
	sum_splits(int splits, size_t stride, size_t count, const float *partial, float *sum)
{
	behind_previous();

	size_t step = (size_t)gridDim.x * SGD_THREADS;

	for (size_t i = (size_t)blockIdx.x * SGD_THREADS + threadIdx.x; i < count; i += step)
		sum[i] = sum_parts(partial, splits, stride, i);
}

cudaError_t kernel_sum(int splits, size_t stride, size_t count, const float *partial, float *sum,
	cudaStream_t stream)
{
	return launch(sum_splits, blocks_of(count, SGD_THREADS), SGD_THREADS, 0, stream, splits,
		stride, count, partial, sum);
}

/* A parameter's new value; its velocity is moved. */
static __device__ __forceinline__ float moved(
	const struct kernel_step &step, float decay, float p, float g, float *v)
{
	*v = step.momentum * *v + (g + step.l2 * decay * p);
	return p - step.lr * *v;
}

/* One parameter; returns its square as it was. */
static __device__ __forceinline__ double update_one(const struct kernel_sgd &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i)
{
	size_t at = part.at + i;
	float g = sum_parts(part.grad, part.splits, part.stride, i);
	float p = d.params[at], v = d.velocity[at], now = moved(step, part.decay, p, g, &v);

	d.velocity[at] = v;
	d.params[at] = now;
	if (d.copy)
		((uint16_t *)d.copy)[at] = (uint16_t)pack_bf16(now, 0);
	return (double)p * p;
}

/* Four neighbours, whose gradient is g: so many bytes in flight fill the memory's pipes, one
 * parameter's do not. */
static __device__ __forceinline__ double update_four(const struct kernel_sgd &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i, float4 g)
{
	size_t at = part.at + i;
	float4 p = *(const float4 *)(d.params + at), v = *(const float4 *)(d.velocity + at), now;

	now.x = moved(step, part.decay, p.x, g.x, &v.x);
	now.y = moved(step, part.decay, p.y, g.y, &v.y);
	now.z = moved(step, part.decay, p.z, g.z, &v.z);
	now.w = moved(step, part.decay, p.w, g.w, &v.w);
	*(float4 *)(d.velocity + at) = v;
	*(float4 *)(d.params + at) = now;
	if (d.copy) {
		uint2 pairs = { pack_bf16(now.x, now.y), pack_bf16(now.z, now.w) };

		*(uint2 *)((uint16_t *)d.copy + at) = pairs;
	}
	return (double)p.x * p.x + (double)p.y * p.y + (double)p.z * p.z + (double)p.w * p.w;
}

/* The sum of every so many partial sums of four neighbours, from one on. */
static __device__ __forceinline__ float4 sum_four(
	const struct kernel_part &part, size_t i, int from, int step)
{
	float4 sum = make_float4(0, 0, 0, 0);

#pragma unroll 4
	for (int s = from; s < part.splits; s += step) {
		float4 x = *(const float4 *)(part.grad + (size_t)s * part.stride + i);

		sum.x += x.x;
		sum.y += x.y;
		sum.z += x.z;
		sum.w += x.w;
	}
	return sum;
}

/*
 * A part of many splits, such as the first convolution's 132 of 832 numbers: SGD_LANES lanes of a
 * warp share four neighbours, else one thread waits for all of these loads. i counts lanes; whole
 * warps come here.
 */
static __device__ __forceinline__ double update_shared(const struct kernel_sgd &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i, size_t fours)
{
	int lane = (int)(i % SGD_LANES);
	bool is = i / SGD_LANES < fours;
	size_t at = is ? i / SGD_LANES * 4 : 0;
	float4 g = sum_four(part, at, lane, SGD_LANES);

#pragma unroll
	for (int by = 1; by < SGD_LANES; by *= 2) {
		g.x += __shfl_xor_sync(EVERYONE, g.x, by);
		g.y += __shfl_xor_sync(EVERYONE, g.y, by);
		g.z += __shfl_xor_sync(EVERYONE, g.z, by);
		g.w += __shfl_xor_sync(EVERYONE, g.w, by);
	}
	return is && lane == 0 ? update_four(d, part, step, at, g) : 0;
}

/* How many fours of a part can be moved whole. */
static __device__ __forceinline__ size_t fours_of(
	const struct kernel_sgd &d, const struct kernel_part &part)
{
	uintptr_t places = (uintptr_t)(d.params + part.at) | (uintptr_t)(d.velocity + part.at) |
		(uintptr_t)part.grad | ((uintptr_t)d.copy + 2 * part.at) << 1;

	return places % 16 || (part.splits > 1 && part.stride % 4) ? 0 : part.count / 4;
}

/*
 * Every block walks through all parts, so that a small part costs no launch of its own; where one
 * ends, the next begins with the threads that had no turn in it. The last block to end adds the
 * blocks' sums up in their order.
 */
__global__ void __launch_bounds__(SGD_THREADS) sgd(const struct kernel_sgd d)
{
	behind_previous();

	double *shared = (double *)(void *)shared_memory();
	uint32_t now = d.now ? *d.now : 0;
	struct kernel_step step = d.step[now];
	size_t threads = (size_t)gridDim.x * SGD_THREADS, begin = 0;
	size_t mine = (size_t)blockIdx.x * SGD_THREADS + threadIdx.x;
	double sums[2] = {};

	for (int k = 0; k < d.n; k++) {
		const struct kernel_part part = d.parts[k];
		size_t fours = fours_of(d, part), rest = part.count - 4 * fours;
		bool share = part.splits >= SGD_SPLITS;
		/* Whole warps, so that lanes stay together; the rest is by one thread a number. */
		size_t wide = share ? (fours * SGD_LANES + WARP - 1) / WARP * WARP : fours;
		size_t turns = (wide + rest + WARP - 1) / WARP * WARP;
		size_t i = mine >= begin ? mine - begin : mine + threads - begin;
		double norm2 = 0;

		for (; i < wide; i += threads)
			norm2 += share
				? update_shared(d, part, step, i, fours)
				: update_four(d, part, step, 4 * i, sum_four(part, 4 * i, 0, 1));
		for (; i < wide + rest; i += threads)
			norm2 += update_one(d, part, step, i - wide + 4 * fours);
		sums[0] += norm2;
		sums[1] += (double)(step.l2 * part.decay) * norm2 / 2;
		begin += turns < threads ? turns : 0; /* a division would take longer than a turn */
		begin -= begin >= threads ? threads : 0;
	}
	if (!reduce_grid<2>(sums, shared, d.partial, d.ticket) || threadIdx.x)
		return;
	d.result[now].norm2 = sums[0];
	d.result[now].penalty = sums[1];
	if (d.now)
		*d.now = now + 1;
}

cudaError_t kernel_sgd(const struct kernel_sgd *d, cudaStream_t stream)
{
	size_t blocks = (d->elements + 2 * SGD_THREADS - 1) / (2 * SGD_THREADS);

	if (d->n < 1 || d->n > KERNEL_PARTS_MAX)
		return cudaErrorInvalidValue;
	blocks = blocks < 1 ? 1 : blocks > KERNEL_SGD_BLOCKS ? KERNEL_SGD_BLOCKS : blocks;
	return launch(sgd, (unsigned)blocks, SGD_THREADS, REDUCE_BYTES(2), stream, *d);
}
