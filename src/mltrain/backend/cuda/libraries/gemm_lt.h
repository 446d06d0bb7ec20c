/*
 * Dense layers by cuBLASLt: y = x * transpose(w) + b and its gradients, with what it can fuse.
 * https://docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API"
 *
 * Row-major arrays x [n][c], w [k][c], y [n][k] are column-major ones of the transposed shape,
 * which is what cuBLASLt reads: y (k x n) = transpose(w (c x k)) * x (c x n).
 */
#pragma once

#include "base/base.h"
#include "tensor/shape.h"

#include <cuda_runtime_api.h>

enum gemm_what {
	GEMM_FORWARD, /* a = x, b = w, c = y; bias is read */
	GEMM_DATA,    /* a = dy, b = w, c = dx */
	GEMM_WEIGHTS, /* a = x, b = dy, c = dw; bias is the bias gradient, written */
};

struct gemm_shape {
	enum gemm_what what;
	int n, c, k;
	enum dtype dtype; /* DTYPE_BF16: a and b are bf16; else f32 */
	int c_is_f32;     /* c is f32 although dtype is bf16: weight gradients, logits */
	int bias, relu;   /* relu: GEMM_FORWARD alone */
};

struct gemm_lt;

/* Open the library, of which a process has one handle. Returns 0, -ENOENT when it is not there,
 * -EIO. */
int gemm_lt_open(struct mlr_error *err);

/* Prepare one product: the best of cuBLASLt's heuristics within the workspace. Returns 0, -ENOTSUP
 * when there is none, -EIO. */
int gemm_lt_new(const struct gemm_shape *shape, size_t workspace, struct gemm_lt **ret,
	struct mlr_error *err);
void gemm_lt_free(struct gemm_lt **g);

/* Put it on the stream. All arrays are on the device, aligned to 256 bytes. */
int gemm_lt_run(struct gemm_lt *g, const void *a, const void *b, void *c, void *bias,
	void *workspace, cudaStream_t stream, struct mlr_error *err);
