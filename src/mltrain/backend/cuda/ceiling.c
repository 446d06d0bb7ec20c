/* Measures the best speed of cuBLASLt's matrix product and of a copy on the device. */
#include "backend/cuda/engine.h"

#include "backend/cuda/libraries/gemm_lt.h"

#define SIDE       8192 /* of the matrices */
#define TIMES      8
#define WORKSPACE  ((size_t)64 << 20)
#define COPY_BYTES ((size_t)1 << 30)

struct ceiling {
	void *a, *b, *c, *workspace;
	struct gemm_lt *gemm;
};

static void ceiling_done(struct ceiling *x)
{
	gemm_lt_free(&x->gemm);
	cudaFree(x->a);
	cudaFree(x->b);
	cudaFree(x->c);
	cudaFree(x->workspace);
}

/* Random values: a GPU that multiplies zeros draws less power and clocks higher. 0x3c00 to 0x3dff
 * is the upper half of floats and all of a bf16 in [0.007, 0.13). */
static int fill(void *device, size_t bytes, cudaStream_t stream, struct mlr_error *err)
{
	auto_free uint16_t *x = malloc(bytes);
	uint32_t state = 1;

	if (!x)
		return mlr_fail(err, ENOMEM, "no memory for a matrix of %zu bytes", bytes);
	for (size_t i = 0; i < bytes / sizeof(*x); i++) {
		state = state * 1664525 + 1013904223; /* Numerical Recipes' generator */
		x[i] = (uint16_t)(0x3c00 | (state >> 23));
	}
	CU_TRY(cudaMemcpyAsync(device, x, bytes, cudaMemcpyHostToDevice, stream));
	return CU(cudaStreamSynchronize(stream));
}

static int multiply(struct cuda *c, struct ceiling *x, int times, struct mlr_error *err)
{
	for (int i = 0; i < times; i++)
		TRY(gemm_lt_run(x->gemm, x->a, x->b, x->c, NULL, x->workspace, c->stream, err));
	return CU(cudaStreamSynchronize(c->stream));
}

static int time_product(
	struct cuda *c, struct ceiling *x, int n, struct engine_ceiling *ret, struct mlr_error *err)
{
	const struct gemm_shape shape = {
		.what = GEMM_FORWARD, .n = SIDE, .c = SIDE, .k = SIDE, .dtype = c->dtype
	};
	size_t bytes = (size_t)SIDE * SIDE * (c->dtype == DTYPE_BF16 ? 2 : 4);

	TRY(gemm_lt_open(err));
	TRY(gemm_lt_new(&shape, WORKSPACE, &x->gemm, err));
	CU_TRY(cudaMalloc(&x->a, bytes));
	CU_TRY(cudaMalloc(&x->b, bytes));
	CU_TRY(cudaMalloc(&x->c, bytes));
	CU_TRY(cudaMalloc(&x->workspace, WORKSPACE));
	TRY(fill(x->a, bytes, c->stream, err));
	TRY(fill(x->b, bytes, c->stream, err));
	TRY(multiply(c, x, 1, err));
	for (int i = 0; i < n; i++) {
		double start = mlr_now();

		TRY(multiply(c, x, TIMES, err));
		ret[i].flops = 2.0 * SIDE * SIDE * SIDE;
		ret[i].flops_seconds = (mlr_now() - start) / TIMES;
	}
	return 0;
}

static int copy(struct cuda *c, struct ceiling *x, int times, struct mlr_error *err)
{
	for (int i = 0; i < times; i++)
		CU_TRY(cudaMemcpyAsync(
			x->b, x->a, COPY_BYTES, cudaMemcpyDeviceToDevice, c->stream));
	return CU(cudaStreamSynchronize(c->stream));
}

static int time_copy(
	struct cuda *c, struct ceiling *x, int n, struct engine_ceiling *ret, struct mlr_error *err)
{
	CU_TRY(cudaMalloc(&x->a, COPY_BYTES));
	CU_TRY(cudaMalloc(&x->b, COPY_BYTES));
	CU_TRY(cudaMemsetAsync(x->a, 1, COPY_BYTES, c->stream));
	TRY(copy(c, x, 1, err));
	for (int i = 0; i < n; i++) {
		double start = mlr_now();

		TRY(copy(c, x, TIMES, err));
		ret[i].bytes = 2.0 * (double)COPY_BYTES;
		ret[i].bytes_seconds = (mlr_now() - start) / TIMES;
	}
	return 0;
}

int cuda_ceiling(struct cuda *c, int n, struct engine_ceiling *ret, struct mlr_error *err)
{
	auto_call(ceiling_done) struct ceiling product = { NULL }, copied = { NULL };

	TRY(time_product(c, &product, n, ret, err));
	return time_copy(c, &copied, n, ret, err);
}
