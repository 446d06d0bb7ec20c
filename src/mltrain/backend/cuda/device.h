/*
 * backend/cuda: the arithmetic on NVIDIA's GPUs, a plugin (mltrain-cuda.so), so that one mltrain
 * starts on machines without CUDA.
 *
 * This header: the device that a process computes on, and how calls of CUDA's libraries fail.
 */
#pragma once

#include "base/base.h"

#include <cuda_runtime_api.h>

struct device {
	int ordinal; /* cudaSetDevice()'s */
	char name[64];
	int sm;      /* compute capability, 10 * major + minor */
	uint64_t id; /* of 52 bits, its UUID's: no other GPU's */
	size_t memory;
};

/*
 * Take the device of this process: the local_rank-th of those that CUDA_VISIBLE_DEVICES leaves,
 * counted round and round where there are fewer.
 *
 * Returns 0, -ENODEV when there is none or none that these kernels were compiled for (with a hint),
 * -EIO.
 */
int device_take(int local_rank, struct device *ret, struct mlr_error *err);

/* A call's answer: 0, or -ENOMEM for lack of memory, -EIO for anything else, with the call, its
 * place and CUDA's words. */
int cuda_check(
	cudaError_t got, const char *call, const char *file, int line, struct mlr_error *err);

/* The answer of a call: 0 or a negative errno. err must be in scope. */
#define CU(call) cuda_check((call), #call, __FILE__, __LINE__, err)

/* Leave the function with a call's failure. */
#define CU_TRY(call)                      \
	do {                              \
		int cu_tried_ = CU(call); \
		if (cu_tried_ < 0)        \
			return cu_tried_; \
	} while (0)
