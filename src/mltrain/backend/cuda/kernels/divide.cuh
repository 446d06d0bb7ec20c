/*
 * Division by a number that the host knows: a multiplication and a shift (Granlund and Montgomery,
 * "Division by Invariant Integers using Multiplication", 1994). For dividends below 2^31.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"

/* a / b, rounded up. */
static inline int ceil_div(int a, int b)
{
	return (a + b - 1) / b;
}

struct divisor {
	int by;
	uint32_t multiplier, shift;
};

static inline struct divisor divisor_of(int by)
{
	struct divisor d = { by, 0, 0 };
	int log = 0;

	while (log < 31 && (1u << log) < (uint32_t)by)
		log++;
	if (by > 1) {
		d.multiplier =
			(uint32_t)((((uint64_t)1 << (31 + log)) + (uint64_t)by - 1) / (uint64_t)by);
		d.shift = (uint32_t)(log - 1);
	}
	return d;
}

/* Returns n / d; rest is set to n % d. */
static __device__ __forceinline__ int divide(struct divisor d, int n, int *rest)
{
	int q = d.by == 1 ? n : (int)(__umulhi((uint32_t)n, d.multiplier) >> d.shift);

	*rest = n - q * d.by;
	return q;
}
