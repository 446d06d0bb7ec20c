/*
 * Arrays for tests of the GPU's kernels on the CPU: as the kernels have them (NHWC, a dtype's
 * storage) and as ops.h does (NCHW, float).
 */
#ifndef KERNEL_ARRAYS_H
#define KERNEL_ARRAYS_H

#include "cuda_on_cpu/cuda_on_cpu.h"
#include "backend/cuda/kernels/kernels.h"
#include "tensor/rng.h"

#define DTYPES 3
extern const enum dtype dtypes[DTYPES];

/* n numbers between -1 and 1 that the dtype can hold; some are exactly 0. To free(). */
float *numbers(struct rng *r, enum dtype dtype, size_t n);

/* An array in "device" memory, exactly as large as it must be, so that AddressSanitizer sees
 * more. */
void *stored(enum dtype dtype, const float *x, size_t n);

/* Room for n numbers, filled with NaN. */
void *room(enum dtype dtype, size_t n);

/* Number i of what is stored. */
float value(enum dtype dtype, const void *x, size_t i);

/* [n][c][pixels] from [n][pixels][c], and back. */
float *planes(const float *x, size_t n, size_t c, size_t pixels);
float *pixels_first(const float *x, size_t n, size_t c, size_t pixels);

/*
 * Fail when an element differs by more than rounding explains. Products of tf32 numbers are off by
 * 2^-10 each, bf16 results are rounded by 2^-9 when stored; `terms` numbers of deviation 1/2 or so
 * were summed. _floats: results that are float whatever the dtype.
 */
void assert_close(const char *what, enum dtype dtype, const void *got, const float *want, size_t n,
	double terms);
void assert_floats(const char *what, enum dtype dtype, const float *got, const float *want,
	size_t n, double terms);

struct CMUnitTest;

/* Run the tests with threads and blocks in each order. */
int run_in_every_order(const struct CMUnitTest *tests, size_t n);

#endif
