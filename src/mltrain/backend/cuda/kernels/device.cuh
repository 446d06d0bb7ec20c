/*
 * What the kernels need of the machine: bf16, copies into shared memory, tensor cores (PTX ISA 8,
 * sections "cp.async", "ldmatrix", "mma.sync"), launches. Tests run the same kernels on the CPU
 * with another file of this name.
 */
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#define WARP      32
#define EVERYONE  0xffffffffu
#define KERNEL_SM 132 /* multiprocessors of an H100 or H200: what grids are sized for */

#define SHARED_PLAIN (48 * 1024) /* bytes that a launch gets without asking */
#define OUT_OF_LINE  __noinline__

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

/* A float as a tensor core's tf32 takes it: rounded to 10 bits of mantissa. */
static __device__ __forceinline__ uint32_t round_tf32(float x)
{
	uint32_t ret;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ret) : "f"(x));
	return ret;
}

/* The greater of two; a NaN where one is. */
static __device__ __forceinline__ float max_nan(float a, float b)
{
	float ret;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(ret) : "f"(a), "f"(b));
	return ret;
}

/* A block's shared memory, as many bytes as its launch asked for; aligned to 16. */
static __device__ __forceinline__ unsigned char *shared_memory(void)
{
	extern __shared__ __align__(16) unsigned char shared_bytes[];

	return shared_bytes;
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* Begin to copy 16 bytes (both sides aligned) from global to shared memory; from NULL: zeros. */
static __device__ __forceinline__ void copy_16(void *shared, const void *from, const void *safe)
{
	int bytes = from ? 16 : 0;

	asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
		     "l"(from ? from : safe), "r"(bytes)
		     : "memory");
}

/* Close a group of copies; wait until at most so many of this thread's latest groups are under
 * way. */
static __device__ __forceinline__ void copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void copy_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/*
 * Four 8x8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8, and
 * gets elements 2 * (l % 4), + 1 of row l / 4 of each. _across: of the transposed matrices.
 */
static __device__ __forceinline__ void load_matrices(uint32_t r[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(shared_address(row))
		     : "memory");
}

static __device__ __forceinline__ void load_matrices_across(uint32_t r[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(shared_address(row))
		     : "memory");
}

/*
 * d [16][8] += a [16][16] * b [16][8] of bf16. With g = lane / 4 and t = lane % 4 a lane holds
 *   d   (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)
 *   a   pairs from (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8)
 *   b   pairs (2t, g) (2t + 1, g) and 8 rows below
 */
static __device__ __forceinline__ void mma_bf16(
	float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/*
 * d [16][8] += a [16][8] * b [8][8] of tf32; d as above, a: (g, t) (g + 8, t) (g, t + 4)
 * (g + 8, t + 4), b: (t, g) (t + 4, g).
 */
static __device__ __forceinline__ void mma_tf32(
	float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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

/* Start a kernel; bytes of shared memory, at most 227 KiB (163 KiB before sm_90). */
template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, unsigned threads, size_t bytes,
	cudaStream_t stream, A... args)
{
	cudaLaunchAttribute overlap = {};
	cudaLaunchConfig_t config = {};

	if (bytes > SHARED_PLAIN) {
		cudaError_t r = cudaFuncSetAttribute((const void *)kernel,
			cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);

		if (r != cudaSuccess)
			return r;
	}
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
