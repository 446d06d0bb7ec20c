/*
 * The update of all parameters in one launch.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define UPDATE_THREADS 256

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

/* Update four neighbours, as one parameter's bytes in flight do not fill the memory's pipes.
 * Returns the sum of their squares as they were. */
template <enum kernel_rule RULE>
static __device__ __forceinline__ double update_four(
	const struct kernel_update &d, float decay, const struct kernel_step &step, size_t at)
{
	float4 g = *(const float4 *)(d.grad + at), p = *(const float4 *)(d.params + at);
	float4 v = *(const float4 *)(d.moment + at), s, now;

	s = RULE == KERNEL_SGD ? make_float4(0, 0, 0, 0) : *(const float4 *)(d.square + at);
	now.x = moved<RULE>(step, decay, p.x, g.x, &v.x, &s.x);
	now.y = moved<RULE>(step, decay, p.y, g.y, &v.y, &s.y);
	now.z = moved<RULE>(step, decay, p.z, g.z, &v.z, &s.z);
	now.w = moved<RULE>(step, decay, p.w, g.w, &v.w, &s.w);
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
		size_t fours = part.count / 4;
		size_t i = mine >= begin ? mine - begin : mine + threads - begin;
		double norm2 = 0;

		for (; i < fours; i += threads)
			norm2 += update_four<RULE>(d, part.decay, step, part.at + 4 * i);
		sums[0] += norm2;
		sums[1] += RULE == KERNEL_ADAMW ? 0 : (double)(step.l2 * part.decay) * norm2 / 2;
		begin += fours < threads ? fours : 0; /* a division would take longer than a turn */
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
