/*
 * Sums of partial gradients, and the update of all parameters in one launch.
 */
#include "trainer/backend/cuda/kernels.h"

#include "trainer/backend/cuda/device.cuh"
#include "trainer/backend/cuda/reduce.cuh"

#define SGD_THREADS 256

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
static __device__ __forceinline__ double update_one(const struct kernel_sgd &d, const struct kernel_part &part,
	const struct kernel_step &step, size_t i)
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

static __device__ __forceinline__ void add_four(float4 *sum, float4 x)
{
	sum->x += x.x;
	sum->y += x.y;
	sum->z += x.z;
	sum->w += x.w;
}

/* And four neighbours: so many bytes in flight fill the memory's pipes, one parameter's do not. */
static __device__ __forceinline__ double update_four(const struct kernel_sgd &d, const struct kernel_part &part,
	const struct kernel_step &step, size_t i)
{
	size_t at = part.at + i;
	float4 p = *(const float4 *)(d.params + at), v = *(const float4 *)(d.velocity + at);
	float4 g = make_float4(0, 0, 0, 0), now;

#pragma unroll 8 /* the first convolution has 132 parts: their loads must not wait for each other */
	for (int s = 0; s < part.splits; s++)
		add_four(&g, *(const float4 *)(part.grad + (size_t)s * part.stride + i));
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
	double *shared = (double *)(void *)shared_memory();
	uint32_t now = d.now ? *d.now : 0;
	struct kernel_step step = d.step[now];
	size_t threads = (size_t)gridDim.x * SGD_THREADS, begin = 0;
	size_t mine = (size_t)blockIdx.x * SGD_THREADS + threadIdx.x;
	double sums[2] = {};

	for (int k = 0; k < d.n; k++) {
		const struct kernel_part part = d.parts[k];
		size_t fours = fours_of(d, part), turns = fours + part.count - 4 * fours;
		size_t i = mine >= begin ? mine - begin : mine + threads - begin;
		double norm2 = 0;

		for (; i < fours; i += threads)
			norm2 += update_four(d, part, step, 4 * i);
		for (; i < turns; i += threads)
			norm2 += update_one(d, part, step, i + 3 * fours);
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
