/*
 * How loops of ours use wide vectors: WIDE functions are compiled for three widths, of which the
 * loader picks the CPU's; what they call must be INLINE to be compiled with them.
 */
#ifndef MLT_BACKEND_WIDE_H
#define MLT_BACKEND_WIDE_H

/* The sanitizers' runtime is not ready when the loader picks; clang 14 can't name these widths. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

#define INLINE static inline __attribute__((always_inline))

/* 16 floats: one register of AVX-512, two of AVX, four of SSE. */
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

/* What comparing two of them gives: all bits set where true. */
typedef int mask16 __attribute__((vector_size(64), aligned(4), may_alias));

#endif
