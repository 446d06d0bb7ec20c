/*
 * What stands in for NVIDIA's libraries has in common: it ends the program where they would do
 * something else than what is wanted, without a word.
 */
#ifndef CUDA_FAKE_STAND_IN_H
#define CUDA_FAKE_STAND_IN_H

#include "cuda_on_cpu.h"
#include "backend/cuda/kernels/device.cuh"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAND_IN_WORKSPACE 4096 /* bytes that are written to show who else counts on them */

static inline void demand(bool is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "fake libraries: %s\n", what);
	abort();
}

static inline void demand_aligned(const void *p, size_t to, const char *what)
{
	demand(p && (uintptr_t)p % to == 0, what);
}

/* An array of f32 or bf16. */
struct array {
	void *at;
	bool half;

	float operator[](size_t i) const
	{
		return half ? to_float(((const bf16 *)at)[i]) : ((const float *)at)[i];
	}
	void set(size_t i, float x) const
	{
		if (half)
			((bf16 *)at)[i].bits = (uint16_t)cuda_on_cpu_bf16(x);
		else
			((float *)at)[i] = x;
	}
};

/* Put a product on the stream, which writes its workspace all over. */
static inline void submit_product(cudaStream_t stream, void *workspace, std::function<void()> run)
{
	demand(workspace != NULL, "no workspace");
	cuda_on_cpu_submit(stream, [=]() {
		memset(workspace, 0xff, STAND_IN_WORKSPACE);
		run();
	});
}

#endif
