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

/* One parameter; returns it as it was. */
static __device__ __forceinline__ float update(const struct kernel_sgd &d,
	const struct kernel_part &part, const struct kernel_step &step, size_t i)
{
	float g = sum_parts(part.grad, part.splits, part.stride, i);
	float p = d.params[part.at + i];
	float v = step.momentum * d.velocity[part.at + i] + (g + step.l2 * part.decay * p);
	float now = p - step.lr * v;

	d.velocity[part.at + i] = v;
	d.params[part.at + i] = now;
	if (d.copy)
		((uint16_t *)d.copy)[part.at + i] = (uint16_t)pack_bf16(now, 0);
	return p;
}

/*
 * Every block walks through all parts, so that a small part costs no launch of its own. The last
 * block to end adds the blocks' sums up in their order.
 */
__global__ void __launch_bounds__(SGD_THREADS) sgd(const struct kernel_sgd d)
{
	double *shared = (double *)(void *)shared_memory();
	uint32_t now = d.now ? *d.now : 0;
	struct kernel_step step = d.step[now];
	size_t stride = (size_t)gridDim.x * SGD_THREADS, before = 0;
	double sums[2] = {};

	for (int k = 0; k < d.n; k++) {
		const struct kernel_part part = d.parts[k];
		/* Where this thread's turn falls in this part, counted over all parts. */
		size_t turn = (size_t)blockIdx.x * SGD_THREADS + threadIdx.x;
		size_t i = (turn + stride - before % stride) % stride;
		double norm2 = 0;

		for (; i < part.count; i += stride) {
			double p = update(d, part, step, i);

			norm2 += p * p;
		}
		sums[0] += norm2;
		sums[1] += (double)(step.l2 * part.decay) * norm2 / 2;
		before += part.count;
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
