/*
 * How loops of ours use wide vectors: WIDE functions are compiled for three widths, of which the
 * loader picks the CPU's; what they call must be INLINE to be compiled with them.
 */
#ifndef MLT_BACKEND_WIDE_H
#define MLT_BACKEND_WIDE_H

/* The sanitizers' runtime is not ready when the loader picks. The two compilers name widths their
 * own ways. */
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__)
#define WIDE
#elif defined(__clang__)
#if __has_feature(address_sanitizer)
#define WIDE
#else
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

#define INLINE static inline __attribute__((always_inline))

/* 16 floats: one register of AVX-512, two of AVX, four of SSE. */
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

/* What comparing two of them gives: all bits set where true. */
typedef int mask16 __attribute__((vector_size(64), aligned(4), may_alias));

#endif
