/*
 * The machine of src/mltrain/backend/cuda/kernels/device.cuh, played on the CPU (cuda_on_cpu.h):
 * the same names do the same.
 */
#ifndef MLT_BACKEND_CUDA_DEVICE_CUH
#define MLT_BACKEND_CUDA_DEVICE_CUH

#include "cuda_on_cpu.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define WARP      32
#define EVERYONE  0xffffffffu
#define KERNEL_SM 132

struct dim3 {
	unsigned x, y, z;

	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Barriers, and a block's shared memory (cuda_on_cpu.cc). */
void __syncthreads(void);
void __syncwarp(unsigned mask = EVERYONE);
unsigned char *shared_memory(void);

/* A kernel's first words; one that says or does anything before them is ended with a line. */
void behind_previous(void);

/* Every lane gives bytes <= 64 and, when all have, sees what each gave: [WARP] of 64 bytes. */
const unsigned char (*cuda_on_cpu_gather(const void *mine, size_t bytes))[64];

template <class T> static T cuda_on_cpu_lane(T mine, unsigned lane)
{
	T ret;

	memcpy(&ret, cuda_on_cpu_gather(&mine, sizeof(mine))[lane % WARP], sizeof(ret));
	return ret;
}

template <class T> static T __shfl_xor_sync(unsigned, T x, int mask)
{
	return cuda_on_cpu_lane(x, (threadIdx.x % WARP) ^ (unsigned)mask);
}

static inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 32);
}

/* Fibers run one at a time, so these are whole as they stand. */
static inline void __threadfence(void)
{
}

static inline unsigned atomicInc(unsigned *at, unsigned limit)
{
	unsigned old = *at;

	*at = old >= limit ? 0 : old + 1;
	return old;
}

template <class T> static T __ldcg(const T *p)
{
	return *p;
}

struct float4 {
	float x, y, z, w;
};
struct uint2 {
	uint32_t x, y;
};
struct uint4 {
	uint32_t x, y, z, w;
};

static inline float4 make_float4(float x, float y, float z, float w)
{
	return { x, y, z, w };
}

struct bf16 {
	uint16_t bits;
};

static inline float to_float(float x)
{
	return x;
}

static inline float to_float(bf16 x)
{
	uint32_t bits = (uint32_t)x.bits << 16;
	float ret;

	memcpy(&ret, &bits, 4);
	return ret;
}

static inline float __uint_as_float(uint32_t bits)
{
	float ret;

	memcpy(&ret, &bits, 4);
	return ret;
}

static inline uint32_t __float_as_uint(float x)
{
	uint32_t ret;

	memcpy(&ret, &x, 4);
	return ret;
}

/* Round to nearest, ties to even; a NaN stays one. */
static inline uint32_t cuda_on_cpu_bf16(float x)
{
	uint32_t bits = __float_as_uint(x);

	if (x != x)
		return 0x7fff;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t pack_bf16(float lower, float upper)
{
	return cuda_on_cpu_bf16(lower) | cuda_on_cpu_bf16(upper) << 16;
}

template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, unsigned threads, size_t bytes,
	cudaStream_t stream, A... args)
{
	auto run = [=]() {
		const unsigned extent[3] = { grid.x, grid.y, grid.z };

		cuda_on_cpu_run(extent, threads, bytes, [=]() { kernel(P(args)...); });
	};

	/* The limits of a launch (CUDA C++ Programming Guide, "Compute Capabilities"). */
	if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || !threads ||
		threads > 1024 || bytes > 48 * 1024)
		return cudaErrorInvalidValue;
	if (cuda_on_cpu_submit)
		cuda_on_cpu_submit(stream, run);
	else
		run();
	return cudaSuccess;
}

#endif
