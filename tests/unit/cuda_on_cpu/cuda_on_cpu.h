/*
 * Runs CUDA kernels on the CPU, for tests: a .cu file is compiled as C++ with this folder first
 * among the include paths, so that it finds the device.cuh beside this header.
 *
 * A block's threads are fibers that run one after the other, each up to the next barrier (or
 * collective of its warp). What a kernel gets wrong shows:
 *   - shared memory is a heap block of the size asked for, all 0xff (a NaN) at each block's start:
 *     AddressSanitizer sees who leaves it, results show who reads what was not written
 *   - the order in which threads and blocks run is chosen: results that differ between orders tell
 *     of a race between barriers
 *   - a kernel whose first words are not behind_previous() aborts with a line that says so
 *   - threads that wait at different barriers are a deadlock, which aborts with a line that says so
 */
#ifndef CUDA_ON_CPU_H
#define CUDA_ON_CPU_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_order { CUDA_ORDER_FORWARD, CUDA_ORDER_REVERSE, CUDA_ORDER_RANDOM };

/* In which order threads and blocks run from now on. */
void cuda_on_cpu_order(enum cuda_order order);

/* What kernel_overlap() was told last. */
extern int cuda_on_cpu_overlap;

#ifdef __cplusplus
}

#include <functional>

/* Who gets launches; NULL: they run at once. A recorder of graphs puts itself here. */
extern void (*cuda_on_cpu_submit)(cudaStream_t stream, std::function<void()> launch);

/* Run a grid now: body is called once by each thread. */
void cuda_on_cpu_run(
	const unsigned grid[3], unsigned threads, size_t bytes, const std::function<void()> &body);
#endif

#endif
