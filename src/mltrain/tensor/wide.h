/*
 * Wide vectors for our loops. WIDE functions are compiled for three widths, and the loader picks
 * the CPU's. What they call must be INLINE, to be compiled with them. They are static, but no two
 * in the program may share a name: clang 14 makes the resolver a global symbol.
 *
 * Activations are floats or bfloat16 (the upper half of a float; Intel, "BFLOAT16 - Hardware
 * Numerics Definition", 2018). Loops compute with floats either way: they read and write through
 * wide_load() and wide_store(), whose last argument is constant where it matters.
 */
#pragma once

#include "base/base.h"

/* The sanitizers' runtime is not ready when the loader picks. gcc and clang name widths
 * differently. */
#if !defined(__x86_64__) || defined(MLR_SANITIZED)
#define WIDE
#elif defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

/*
 * Floats of a vector: 16, a register of AVX-512; files that are compiled for 8, too, are named in
 * backend/lanes.h. Activations lie in blocks of 16 channels either way.
 */
#ifndef WIDE_LANES
#define WIDE_LANES 16
#endif

/* For functions of such files: the instructions that go with the width. */
#if !defined(__x86_64__)
#define WIDE_FIXED
#elif WIDE_LANES == 16
#define WIDE_FIXED __attribute__((target("arch=x86-64-v4")))
#else
#define WIDE_FIXED __attribute__((target("arch=x86-64-v3")))
#endif

#define INLINE static inline __attribute__((always_inline))

/* So many floats. */
typedef float vecf __attribute__((vector_size(4 * WIDE_LANES), aligned(4), may_alias));

/* The result of comparing two of them: all bits set where true. */
typedef int veci __attribute__((vector_size(4 * WIDE_LANES), aligned(4), may_alias));

typedef uint32_t vecu __attribute__((vector_size(4 * WIDE_LANES), aligned(4), may_alias));
typedef uint16_t vech __attribute__((vector_size(2 * WIDE_LANES), aligned(2), may_alias));

typedef uint8_t vecb __attribute__((vector_size(WIDE_LANES), aligned(1), may_alias));

/* Bytes of an element. */
INLINE size_t wide_size(int bf16)
{
	return bf16 ? 2 : 4;
}

/* Elements at, at+1 and so on of an array of either kind. */
INLINE void wide_load(vecf *to, const void *from, size_t at, int bf16)
{
	if (bf16) {
		vech h = *(const vech *)((const uint16_t *)from + at);

		*to = (vecf)(__builtin_convertvector(h, vecu) << 16);
	} else {
		*to = *(const vecf *)((const float *)from + at);
	}
}

/* Round to nearest, ties to even. A NaN stays a NaN: arithmetic only makes NaNs whose upper half
 * has mantissa bits. */
INLINE void wide_store(void *to, size_t at, const vecf *from, int bf16)
{
	if (bf16) {
		vecu w = (vecu)*from;

		w = (w + 0x7fff + ((w >> 16) & 1)) >> 16;
		*(vech *)((uint16_t *)to + at) = __builtin_convertvector(w, vech);
	} else {
		*(vecf *)((float *)to + at) = *from;
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
