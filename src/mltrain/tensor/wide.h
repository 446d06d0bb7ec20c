/*
 * Wide vectors for our loops. WIDE functions are compiled for three widths, and the loader picks
 * the CPU's. What they call must be INLINE, to be compiled with them. They are static, but no two
 * in the program may share a name: clang 14 makes the resolver a global symbol.
 *
 * Activations are floats or bfloat16 (the upper half of a float; Intel, "BFLOAT16 - Hardware
 * Numerics Definition", 2018). Loops compute with floats either way: they read and write through
 * wide_load() and wide_store(), whose last argument is constant where it matters.
 */
#ifndef MLT_TENSOR_WIDE_H
#define MLT_TENSOR_WIDE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The sanitizers' runtime is not ready when the loader picks. gcc and clang name widths
 * differently. */
#if !defined(__x86_64__) || defined(MLR_SANITIZED)
#define WIDE
#elif defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

/* For functions that are called only if wide_has_512(): compiled once, for one width. */
#if defined(__x86_64__)
#define WIDE_512 __attribute__((target("arch=x86-64-v4")))
#else
#define WIDE_512
#endif

#define INLINE static inline __attribute__((always_inline))

/* 16 floats: one register of AVX-512, two of AVX, four of SSE. */
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

/* The result of comparing two of them: all bits set where true. */
typedef int mask16 __attribute__((vector_size(64), aligned(4), may_alias));

typedef uint32_t word16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t half16 __attribute__((vector_size(32), aligned(2), may_alias));

typedef uint8_t byte16 __attribute__((vector_size(16), aligned(1), may_alias));

#define WIDE_LANES 16

/* Does the CPU have 32 registers of 16 floats, for loops that keep many sums? */
static inline int wide_has_512(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512cd");
#else
	return 0;
#endif
}

/* Bytes of an element. */
INLINE size_t wide_size(int bf16)
{
	return bf16 ? 2 : 4;
}

/* Elements at.. at+15 of an array of either kind. */
INLINE void wide_load(vec16 *to, const void *from, size_t at, int bf16)
{
	if (bf16) {
		half16 h = *(const half16 *)((const uint16_t *)from + at);

		*to = (vec16)(__builtin_convertvector(h, word16) << 16);
	} else {
		*to = *(const vec16 *)((const float *)from + at);
	}
}

/* Round to nearest, ties to even. A NaN stays a NaN: arithmetic only makes NaNs whose upper half
 * has mantissa bits. */
INLINE void wide_store(void *to, size_t at, const vec16 *from, int bf16)
{
	if (bf16) {
		word16 w = (word16)*from;

		w = (w + 0x7fff + ((w >> 16) & 1)) >> 16;
		*(half16 *)((uint16_t *)to + at) = __builtin_convertvector(w, half16);
	} else {
		*(vec16 *)((float *)to + at) = *from;
	}
}

/* The same for one element. */
INLINE float wide_get(const void *from, size_t at, int bf16)
{
	union {
		uint32_t u;
		float f;
	} w;

	if (!bf16)
		return ((const float *)from)[at];
	w.u = (uint32_t)((const uint16_t *)from)[at] << 16;
	return w.f;
}

INLINE void wide_put(void *to, size_t at, float v, int bf16)
{
	union {
		float f;
		uint32_t u;
	} w = { v };

	if (bf16)
		((uint16_t *)to)[at] = (uint16_t)((w.u + 0x7fff + ((w.u >> 16) & 1)) >> 16);
	else
		((float *)to)[at] = v;
}

#endif
