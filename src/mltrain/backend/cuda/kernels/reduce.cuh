/*
 * Sums over a block and over a grid, in an order that the launch alone decides.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"

/* Shared memory that sums of N doubles need. */
#define REDUCE_BYTES(N) (((N)*WARP + 1) * sizeof(double))

/* Enough blocks for n elements, one a thread; at most eight for each multiprocessor. */
static inline unsigned blocks_of(size_t n, unsigned threads)
{
	size_t blocks = (n + threads - 1) / threads;

	return (unsigned)(blocks < 1                       ? 1
			: blocks > (size_t)(8 * KERNEL_SM) ? (size_t)(8 * KERNEL_SM)
							   : blocks);
}

template <class T> static __device__ __forceinline__ T reduce_warp(T x)
{
	for (int step = WARP / 2; step; step /= 2)
		x += __shfl_xor_sync(EVERYONE, x, step);
	return x;
}

/* Each of N sums over the block's threads, right in thread 0. The block has whole warps. */
template <int N> static __device__ void reduce_block(double x[N], double *shared)
{
	int warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP;

	for (int i = 0; i < N; i++) {
		x[i] = reduce_warp(x[i]);
		if (threadIdx.x % WARP == 0)
			shared[i * WARP + warp] = x[i];
	}
	__syncthreads();
	for (int i = 0; threadIdx.x == 0 && i < N; i++) {
		x[i] = 0;
		for (int w = 0; w < warps; w++)
			x[i] += shared[i * WARP + w];
	}
	__syncthreads();
}

/*
 * Sums over a grid of one dimension. Returns whether this is the last block, and then x is right in
 * thread 0.
 *
 *   shared    [REDUCE_BYTES(N)]
 *   partial   [blocks][N]
 *   ticket    zero before and after
 */
template <int N>
static __device__ bool reduce_grid(double x[N], double *shared, double *partial, uint32_t *ticket)
{
	volatile unsigned *last = (volatile unsigned *)(void *)(shared + N * WARP);

	reduce_block<N>(x, shared);
	if (threadIdx.x == 0) {
		for (int i = 0; i < N; i++)
			partial[blockIdx.x * N + i] = x[i];
		__threadfence();
		*last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
	}
	__syncthreads();
	if (!*last)
		return false;

	__threadfence();
	for (int i = 0; i < N; i++) {
		x[i] = 0;
		for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x)
			x[i] += __ldcg(partial + b * N + i);
	}
	__syncthreads();
	reduce_block<N>(x, shared);
	return true;
}
