/*
 * What the kernels need of the machine: bf16, shared memory, launches. Tests run the same kernels
 * on the CPU with another file of this name.
 */
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#define WARP      32
#define EVERYONE  0xffffffffu
#define KERNEL_SM 132 /* multiprocessors of an H100 or H200: what grids are sized for */

/* The upper half of a float (IEEE 754 binary32). */
struct bf16 {
	uint16_t bits;
};

static __device__ __forceinline__ float to_float(float x)
{
	return x;
}

static __device__ __forceinline__ float to_float(bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

/* Two floats rounded to nearest even, the first in the lower half. */
static __device__ __forceinline__ uint32_t pack_bf16(float lower, float upper)
{
	uint32_t ret;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(ret) : "f"(upper), "f"(lower));
	return ret;
}

/* A block's shared memory, as many bytes as its launch asked for; aligned to 16. */
static __device__ __forceinline__ unsigned char *shared_memory(void)
{
	extern __shared__ __align__(16) unsigned char shared_bytes[];

	return shared_bytes;
}

/*
 * Every kernel's first words: wait until the kernel before has ended and what it wrote is there,
 * then let the one behind be brought to the multiprocessors ("programmatic dependent launch": CUDA
 * C++ Programming Guide; PTX ISA 8, "griddepcontrol"). In this order at most two kernels are there
 * at once, and what the others wrote is there as well.
 */
static __device__ __forceinline__ void behind_previous(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* May a kernel that comes next on a stream begin before the one before it ends? (overlap.cu) */
bool launch_overlaps(const void *kernel, cudaStream_t stream);

/* Start a kernel; bytes of shared memory, at most 48 KiB. */
template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, unsigned threads, size_t bytes,
	cudaStream_t stream, A... args)
{
	cudaLaunchAttribute overlap = {};
	cudaLaunchConfig_t config = {};

	overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	overlap.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = grid;
	config.blockDim = threads;
	config.dynamicSmemBytes = bytes;
	config.stream = stream;
	config.attrs = &overlap;
	config.numAttrs = launch_overlaps((const void *)kernel, stream);
	return cudaLaunchKernelEx(&config, kernel, P(args)...);
}
