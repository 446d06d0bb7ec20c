/*
 * Sums of partial gradients, and the update of all parameters in one launch.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define UPDATE_THREADS 256
#define UPDATE_SPLITS  16 /* from which on lanes share a sum */
#define UPDATE_LANES   8

static __device__ __forceinline__ float sum_parts(
	const float *part, int splits, size_t stride, size_t i)
{
	float sum = 0;

	for (int s = 0; s < splits; s++)
		sum += part[(size_t)s * stride + i];
	return sum;
}

__global__ void __launch_bounds__(UPDATE_THREADS)
	sum_splits(int splits, size_t stride, size_t count, const float *partial, float *sum)
{
	behind_previous();

	size_t step = (size_t)gridDim.x * UPDATE_THREADS;

	for (size_t i = (size_t)blockIdx.x * UPDATE_THREADS + threadIdx.x; i < count; i += step)
		sum[i] = sum_parts(partial, splits, stride, i);
}

cudaError_t kernel_sum(int splits, size_t stride, size_t count, const float *partial, float *sum,
	cudaStream_t stream)
{
	return launch(sum_splits, blocks_of(count, UPDATE_THREADS), UPDATE_THREADS, 0, stream,
		splits, stride, count, partial, sum);
}

/* A parameter's new value; its moments are moved: of SGD, the velocity v alone. */
template <enum kernel_rule RULE>
static __device__ __forceinline__ float moved(
	const struct kernel_step &step, float decay, float p, float g, float *v, float *square)
{
	float l2 = step.l2 * decay, kept = RULE == KERNEL_ADAMW ? 1 - step.lr * l2 : 1;

	if (RULE != KERNEL_ADAMW)
		g += l2 * p;
	if (RULE == KERNEL_SGD) {
		*v = step.momentum * *v + g;
		return p - step.lr * *v;
	}
	*v = step.momentum * *v + (1 - step.momentum) * g;
	*square = step.beta2 * *square + (1 - step.beta2) * g * g;
	return kept * p - step.rate * *v / (sqrtf(*square) + step.epsilon);
}

/* One parameter; returns its square as it was. */
template <enum kernel_rule RULE>
static __device__ __forceinline__ double update_one(const struct kernel_update &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i)
{
	size_t at = part.at + i;
	float g = sum_parts(part.grad, part.splits, part.stride, i);
	float p = d.params[at], v = d.moment[at], square = RULE == KERNEL_SGD ? 0 : d.square[at];
	float now = moved<RULE>(step, part.decay, p, g, &v, &square);

	d.moment[at] = v;
	if (RULE != KERNEL_SGD)
		d.square[at] = square;
	d.params[at] = now;
	if (d.copy)
		((uint16_t *)d.copy)[at] = (uint16_t)pack_bf16(now, 0);
	return (double)p * p;
}

/* Four neighbours, whose gradient is g: so many bytes in flight fill the memory's pipes, one
 * parameter's do not. */
template <enum kernel_rule RULE>
static __device__ __forceinline__ double update_four(const struct kernel_update &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i, float4 g)
{
	size_t at = part.at + i;
	float4 p = *(const float4 *)(d.params + at), v = *(const float4 *)(d.moment + at), s, now;

	s = RULE == KERNEL_SGD ? make_float4(0, 0, 0, 0) : *(const float4 *)(d.square + at);
	now.x = moved<RULE>(step, part.decay, p.x, g.x, &v.x, &s.x);
	now.y = moved<RULE>(step, part.decay, p.y, g.y, &v.y, &s.y);
	now.z = moved<RULE>(step, part.decay, p.z, g.z, &v.z, &s.z);
	now.w = moved<RULE>(step, part.decay, p.w, g.w, &v.w, &s.w);
	*(float4 *)(d.moment + at) = v;
	if (RULE != KERNEL_SGD)
		*(float4 *)(d.square + at) = s;
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
 * A part of many splits, such as the first convolution's 132 of 832 numbers: UPDATE_LANES lanes of
 * a warp share four neighbours, else one thread waits for all of these loads. i counts lanes; whole
 * warps come here.
 */
template <enum kernel_rule RULE>
static __device__ __forceinline__ double update_shared(const struct kernel_update &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i, size_t fours)
{
	int lane = (int)(i % UPDATE_LANES);
	bool is = i / UPDATE_LANES < fours;
	size_t at = is ? i / UPDATE_LANES * 4 : 0;
	float4 g = sum_four(part, at, lane, UPDATE_LANES);

#pragma unroll
	for (int by = 1; by < UPDATE_LANES; by *= 2) {
		g.x += __shfl_xor_sync(EVERYONE, g.x, by);
		g.y += __shfl_xor_sync(EVERYONE, g.y, by);
		g.z += __shfl_xor_sync(EVERYONE, g.z, by);
		g.w += __shfl_xor_sync(EVERYONE, g.w, by);
	}
	return is && lane == 0 ? update_four<RULE>(d, part, step, at, g) : 0;
}

/* How many fours of a part can be moved whole. */
static __device__ __forceinline__ size_t fours_of(
	const struct kernel_update &d, const struct kernel_part &part)
{
	uintptr_t places = (uintptr_t)(d.params + part.at) | (uintptr_t)(d.moment + part.at) |
		(d.square ? (uintptr_t)(d.square + part.at) : 0) | (uintptr_t)part.grad |
		((uintptr_t)d.copy + 2 * part.at) << 1;

	return places % 16 || (part.splits > 1 && part.stride % 4) ? 0 : part.count / 4;
}

/*
 * Every block walks through all parts, so that a small part costs no launch of its own; where one
 * ends, the next begins with the threads that had no turn in it. The last block to end adds the
 * blocks' sums up in their order.
 */
template <enum kernel_rule RULE>
__global__ void __launch_bounds__(UPDATE_THREADS) update(const struct kernel_update d)
{
	behind_previous();

	double *shared = (double *)(void *)shared_memory();
	uint32_t now = d.now ? *d.now : 0;
	struct kernel_step step = d.step[now];
	size_t threads = (size_t)gridDim.x * UPDATE_THREADS, begin = 0;
	size_t mine = (size_t)blockIdx.x * UPDATE_THREADS + threadIdx.x;
	double sums[2] = {};

	for (int k = 0; k < d.n; k++) {
		const struct kernel_part part = d.parts[k];
		size_t fours = fours_of(d, part), rest = part.count - 4 * fours;
		bool share = part.splits >= UPDATE_SPLITS;
		/* Whole warps, so that lanes stay together; the rest is by one thread a number. */
		size_t wide = share ? (fours * UPDATE_LANES + WARP - 1) / WARP * WARP : fours;
		size_t turns = (wide + rest + WARP - 1) / WARP * WARP;
		size_t i = mine >= begin ? mine - begin : mine + threads - begin;
		double norm2 = 0;

		for (; i < wide; i += threads)
			norm2 += share ? update_shared<RULE>(d, part, step, i, fours)
				       : update_four<RULE>(
						 d, part, step, 4 * i, sum_four(part, 4 * i, 0, 1));
		for (; i < wide + rest; i += threads)
			norm2 += update_one<RULE>(d, part, step, i - wide + 4 * fours);
		sums[0] += norm2;
		sums[1] += RULE == KERNEL_ADAMW ? 0 : (double)(step.l2 * part.decay) * norm2 / 2;
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

cudaError_t kernel_update(const struct kernel_update *d, cudaStream_t stream)
{
	static void (*const rules[])(struct kernel_update) = { update<KERNEL_SGD>,
		update<KERNEL_ADAM>, update<KERNEL_ADAMW> };
	size_t blocks = (d->elements + 2 * UPDATE_THREADS - 1) / (2 * UPDATE_THREADS);

	if (d->n < 1 || d->n > KERNEL_PARTS_MAX)
		return cudaErrorInvalidValue;
	blocks = blocks < 1 ? 1 : blocks > KERNEL_UPDATE_BLOCKS ? KERNEL_UPDATE_BLOCKS : blocks;
	return launch(
		rules[d->rule], (unsigned)blocks, UPDATE_THREADS, REDUCE_BYTES(2), stream, *d);
}
