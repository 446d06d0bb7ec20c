/*
 * Runs our own loops on oneDNN's threads: two pools would compete for the cores. Debian's oneDNN
 * uses libgomp; its GOMP_parallel() is what gcc makes of
 * `#pragma omp parallel`, and calling it by name lets clang share the pool too (clang's own OpenMP
 * would bring a second one).
 */
#pragma once

#include "base/base.h"

/* Set the number of threads for the calling thread's loops. */
void parallel_init(int threads);

/* Work on share number `me` of `of`; of is the number of threads. */
typedef void (*parallel_work)(void *ctx, int me, int of);

/* Run work once in every thread, and wait. */
void parallel_run(parallel_work work, void *ctx);

/* Return where share number me of 0..n-1 begins; it ends where the next begins. Shares begin at
 * multiples of grain. */
static inline size_t parallel_from(size_t n, size_t grain, int me, int of)
{
	size_t grains = (n + grain - 1) / grain, at = grains * (size_t)me / (size_t)of * grain;

	return at < n ? at : n;
}
