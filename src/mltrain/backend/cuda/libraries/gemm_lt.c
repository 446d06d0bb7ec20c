#include "backend/cuda/libraries/gemm_lt.h"

#include "backend/cuda/device.h"
#include "backend/cuda/libraries/library.h"

#include <cublasLt.h>

static struct {
	__typeof__(cublasLtCreate) *create;
	__typeof__(cublasLtGetStatusString) *status_string;
	__typeof__(cublasLtMatmul) *matmul;
	__typeof__(cublasLtMatmulAlgoGetHeuristic) *heuristic;
	__typeof__(cublasLtMatmulDescCreate) *desc_create;
	__typeof__(cublasLtMatmulDescDestroy) *desc_destroy;
	__typeof__(cublasLtMatmulDescSetAttribute) *desc_set;
	__typeof__(cublasLtMatrixLayoutCreate) *layout_create;
	__typeof__(cublasLtMatrixLayoutDestroy) *layout_destroy;
	__typeof__(cublasLtMatmulPreferenceCreate) *preference_create;
	__typeof__(cublasLtMatmulPreferenceDestroy) *preference_destroy;
	__typeof__(cublasLtMatmulPreferenceSetAttribute) *preference_set;
} lt;

static cublasLtHandle_t handle;

struct gemm_lt {
	struct gemm_shape shape;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c; /* column-major, as cuBLASLt calls them */
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
};

static int check(cublasStatus_t got, const char *call, int line, struct mlr_error *err)
{
	if (got == CUBLAS_STATUS_SUCCESS)
		return 0;
	return mlr_fail(err, got == CUBLAS_STATUS_NOT_SUPPORTED ? ENOTSUP : EIO,
		"%s: %s (gemm_lt.c, line %d)", call, lt.status_string(got), line);
}

#define LT_TRY(call)                                              \
	do {                                                      \
		int tried_ = check((call), #call, __LINE__, err); \
		if (tried_ < 0)                                   \
			return tried_;                            \
	} while (0)

int gemm_lt_open(struct mlr_error *err)
{
	static const struct library_symbol symbols[] = {
		{ "cublasLtCreate", &lt.create },
		{ "cublasLtGetStatusString", &lt.status_string },
		{ "cublasLtMatmul", &lt.matmul },
		{ "cublasLtMatmulAlgoGetHeuristic", &lt.heuristic },
		{ "cublasLtMatmulDescCreate", &lt.desc_create },
		{ "cublasLtMatmulDescDestroy", &lt.desc_destroy },
		{ "cublasLtMatmulDescSetAttribute", &lt.desc_set },
		{ "cublasLtMatrixLayoutCreate", &lt.layout_create },
		{ "cublasLtMatrixLayoutDestroy", &lt.layout_destroy },
		{ "cublasLtMatmulPreferenceCreate", &lt.preference_create },
		{ "cublasLtMatmulPreferenceDestroy", &lt.preference_destroy },
		{ "cublasLtMatmulPreferenceSetAttribute", &lt.preference_set },
	};
	char soname[32];

	if (handle)
		return 0;
	snprintf(soname, sizeof(soname), "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
	TRY(library_open(soname, symbols, ARRAY_LEN(symbols), err));
	LT_TRY(lt.create(&handle));
	return 0;
}

static cudaDataType_t type_of(const struct gemm_shape *s, int is_c)
{
	return s->dtype == DTYPE_BF16 && !(is_c && s->c_is_f32) ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct gemm_shape *s)
{
	if (s->what == GEMM_WEIGHTS && s->bias)
		return CUBLASLT_EPILOGUE_BGRADB; /* sums the columns of the second factor, dy */
	if (s->what == GEMM_FORWARD && s->bias)
		return s->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
	return s->relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

static int describe(struct gemm_lt *g, struct mlr_error *err)
{
	const struct gemm_shape *s = &g->shape;
	cublasOperation_t ta = s->what == GEMM_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t tb = s->what == GEMM_WEIGHTS ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasLtEpilogue_t epilogue = epilogue_of(s);
	cudaDataType_t ctype = type_of(s, 1);
	/* Heuristics take matrices to be aligned to 256 bytes, and a bias as its address is. */
	const void *bias = (const void *)(uintptr_t)256;

	LT_TRY(lt.desc_create(&g->desc,
		s->dtype == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
		CUDA_R_32F));
	LT_TRY(lt.desc_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)));
	LT_TRY(lt.desc_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb)));
	LT_TRY(lt.desc_set(g->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
	if (!s->bias)
		return 0;
	LT_TRY(lt.desc_set(g->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &ctype, sizeof(ctype)));
	LT_TRY(lt.desc_set(g->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
	return 0;
}

static int lay_out(struct gemm_lt *g, struct mlr_error *err)
{
	const struct gemm_shape *s = &g->shape;
	uint64_t n = (uint64_t)s->n, c = (uint64_t)s->c, k = (uint64_t)s->k;
	cudaDataType_t ab = type_of(s, 0), d = type_of(s, 1);

	if (s->what == GEMM_WEIGHTS) { /* dw (c x k) = x (c x n) * transpose(dy (k x n)) */
		LT_TRY(lt.layout_create(&g->a, ab, c, n, s->c));
		LT_TRY(lt.layout_create(&g->b, ab, k, n, s->k));
		LT_TRY(lt.layout_create(&g->c, d, c, k, s->c));
		return 0;
	}
	LT_TRY(lt.layout_create(&g->a, ab, c, k, s->c)); /* w */
	if (s->what == GEMM_FORWARD) {
		LT_TRY(lt.layout_create(&g->b, ab, c, n, s->c));
		LT_TRY(lt.layout_create(&g->c, d, k, n, s->k));
		return 0;
	}
	LT_TRY(lt.layout_create(&g->b, ab, k, n, s->k));
	LT_TRY(lt.layout_create(&g->c, d, c, n, s->c));
	return 0;
}

static int choose(struct gemm_lt *g, size_t workspace, struct mlr_error *err)
{
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t best;
	int found = 0;
	cublasStatus_t status;

	LT_TRY(lt.preference_create(&preference));
	status = lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
		sizeof(workspace));
	if (status == CUBLAS_STATUS_SUCCESS)
		status = lt.heuristic(
			handle, g->desc, g->a, g->b, g->c, g->c, preference, 1, &best, &found);
	lt.preference_destroy(preference);
	TRY(check(status, "cublasLtMatmulAlgoGetHeuristic", __LINE__, err));
	if (!found || best.state != CUBLAS_STATUS_SUCCESS)
		return mlr_fail(err, ENOTSUP, "cuBLASLt has no algorithm for %d x %d x %d",
			g->shape.n, g->shape.c, g->shape.k);
	g->algo = best.algo;
	g->workspace = best.workspaceSize;
	return 0;
}

void gemm_lt_free(struct gemm_lt **g)
{
	if (!*g)
		return;
	if ((*g)->a)
		lt.layout_destroy((*g)->a);
	if ((*g)->b)
		lt.layout_destroy((*g)->b);
	if ((*g)->c)
		lt.layout_destroy((*g)->c);
	if ((*g)->desc)
		lt.desc_destroy((*g)->desc);
	free(*g);
	*g = NULL;
}

int gemm_lt_new(const struct gemm_shape *shape, size_t workspace, struct gemm_lt **ret,
	struct mlr_error *err)
{
	auto_call(gemm_lt_free) struct gemm_lt *g = xcalloc(1, sizeof(*g));

	g->shape = *shape;
	TRY(describe(g, err));
	TRY(lay_out(g, err));
	TRY(choose(g, workspace, err));
	*ret = take_ptr(&g);
	return 0;
}

int gemm_lt_run(struct gemm_lt *g, const void *a, const void *b, void *c, void *bias,
	void *workspace, cudaStream_t stream, struct mlr_error *err)
{
	const float one = 1, zero = 0;
	const void *left = g->shape.what == GEMM_WEIGHTS ? a : b;
	const void *right = g->shape.what == GEMM_WEIGHTS ? b : a;

	if (g->shape.bias)
		LT_TRY(lt.desc_set(
			g->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
	return check(lt.matmul(handle, g->desc, &one, left, g->a, right, g->b, &zero, c, g->c, c,
			     g->c, &g->algo, workspace, g->workspace, stream),
		"cublasLtMatmul", __LINE__, err);
}
