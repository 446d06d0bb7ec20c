#include "stand_in.h"

#include <cublasLt.h>

struct cublasLtContext {
	int unused;
};

struct cublasLtDesc {
	cublasComputeType_t compute;
	cublasOperation_t ta, tb;
	cublasLtEpilogue_t epilogue;
	int32_t bias_type; /* -1: D's */
	void *bias;
};

struct cublasLtLayout {
	cudaDataType_t type;
	uint64_t rows, columns;
	int64_t pitch;
};

struct cublasLtPreference {
	uint64_t workspace;
};

static int fails_after = -1;

/* A matrix as a product reads it: turned or not. */
struct factor {
	array at;
	cublasLtLayout is;
	bool turned;

	uint64_t rows() const
	{
		return turned ? is.columns : is.rows;
	}
	uint64_t columns() const
	{
		return turned ? is.rows : is.columns;
	}
	double operator()(uint64_t i, uint64_t j) const
	{
		return at[turned ? j + i * (uint64_t)is.pitch : i + j * (uint64_t)is.pitch];
	}
};

extern "C" {

void cublas_lt_fail_after(int n)
{
	fails_after = n;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	static cublasLtContext only;

	*handle = &only;
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return status ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS";
}

cublasStatus_t cublasLtMatmulDescCreate(
	cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
	demand(scale == CUDA_R_32F, "a scale of another type than f32");
	*desc = new cublasLtDesc{ compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, -1,
		NULL };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
	delete desc;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
	cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
	struct {
		cublasLtMatmulDescAttributes_t name;
		void *field;
		size_t size;
	} fields[] = {
		{ CUBLASLT_MATMUL_DESC_TRANSA, &desc->ta, 4 },
		{ CUBLASLT_MATMUL_DESC_TRANSB, &desc->tb, 4 },
		{ CUBLASLT_MATMUL_DESC_EPILOGUE, &desc->epilogue, 4 },
		{ CUBLASLT_MATMUL_DESC_BIAS_POINTER, &desc->bias, sizeof(void *) },
		{ CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &desc->bias_type, 4 },
	};

	for (const auto &f : fields)
		if (f.name == name) {
			demand(f.size == size, "an attribute of another size");
			memcpy(f.field, value, size);
			return CUBLAS_STATUS_SUCCESS;
		}
	return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
	uint64_t rows, uint64_t columns, int64_t pitch)
{
	demand(rows && columns && pitch >= (int64_t)rows, "a matrix that is no column-major one");
	*layout = new cublasLtLayout{ type, rows, columns, pitch };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	delete layout;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
	*preference = new cublasLtPreference{ 0 };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
	delete preference;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
	cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t size)
{
	demand(name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && size == 8,
		"a preference of another name or size");
	memcpy(&preference->workspace, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

static bool has_bias(const cublasLtDesc *d)
{
	return (d->epilogue &
		       (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA |
			       CUBLASLT_EPILOGUE_BGRADB)) != 0;
}

/* Sizes that fit, and types among those that cuBLAS's table for cublasLtMatmul() has. */
static void demand_product(const cublasLtDesc *desc, const cublasLtLayout *a,
	const cublasLtLayout *b, const cublasLtLayout *c, const cublasLtLayout *d)
{
	factor fa = { {}, *a, desc->ta == CUBLAS_OP_T }, fb = { {}, *b, desc->tb == CUBLAS_OP_T };

	demand(fa.rows() == d->rows && fb.columns() == d->columns && fa.columns() == fb.rows(),
		"factors that do not fit");
	demand(c->type == d->type && c->rows == d->rows && c->columns == d->columns &&
			c->pitch == d->pitch,
		"C and D differ");
	demand(a->type == b->type && (a->type == CUDA_R_16BF || d->type == CUDA_R_32F),
		"a product of types that there is none of");
	demand(desc->compute == CUBLAS_COMPUTE_32F || a->type == CUDA_R_32F,
		"TF32 of what is not f32");
	if (has_bias(desc))
		demand(desc->bias && (desc->bias_type == -1 || desc->bias_type == (int32_t)d->type),
			"a bias of another type than D's, or none");
}

/* The pointer's value says how a bias will be aligned (CUBLASLT_MATMUL_DESC_BIAS_POINTER). */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
	cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
	cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
	cublasLtMatmulHeuristicResult_t *results, int *found)
{
	uintptr_t bias = (uintptr_t)desc->bias;

	demand(wanted > 0, "no result is wanted");
	demand_product(desc, a, b, c, d);
	demand(preference->workspace >= STAND_IN_WORKSPACE, "too small a workspace");
	*found = 1;
	memset(results, 0, sizeof(*results));
	results->algo.data[0] = bias ? bias & -bias : 1;
	results->algo.data[1] = (uint64_t)desc->epilogue;
	results->workspaceSize = STAND_IN_WORKSPACE;
	return CUBLAS_STATUS_SUCCESS;
}

static void multiply(const cublasLtDesc &desc, const factor &a, const factor &b,
	const cublasLtLayout &is, array d, array bias)
{
	for (uint64_t j = 0; j < is.columns; j++)
		for (uint64_t i = 0; i < is.rows; i++) {
			double sum = 0;
			float v;

			for (uint64_t k = 0; k < a.columns(); k++)
				sum += a(i, k) * b(k, j);
			v = (float)sum + (desc.epilogue & CUBLASLT_EPILOGUE_BIAS ? bias[i] : 0);
			if ((desc.epilogue & CUBLASLT_EPILOGUE_RELU) && v < 0)
				v = 0;
			d.set(i + j * (uint64_t)is.pitch, v);
		}
	for (uint64_t i = 0; desc.epilogue == CUBLASLT_EPILOGUE_BGRADA && i < is.rows; i++) {
		double sum = 0;

		for (uint64_t k = 0; k < a.columns(); k++)
			sum += a(i, k);
		bias.set(i, (float)sum);
	}
	for (uint64_t j = 0; desc.epilogue == CUBLASLT_EPILOGUE_BGRADB && j < is.columns; j++) {
		double sum = 0;

		for (uint64_t k = 0; k < b.rows(); k++)
			sum += b(k, j);
		bias.set(j, (float)sum);
	}
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
	const void *a, cublasLtMatrixLayout_t alayout, const void *b,
	cublasLtMatrixLayout_t blayout, const void *beta, const void *c,
	cublasLtMatrixLayout_t clayout, void *d, cublasLtMatrixLayout_t dlayout,
	const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
	cudaStream_t stream)
{
	factor fa = { { (void *)(uintptr_t)a, alayout->type == CUDA_R_16BF }, *alayout,
		desc->ta == CUBLAS_OP_T };
	factor fb = { { (void *)(uintptr_t)b, blayout->type == CUDA_R_16BF }, *blayout,
		desc->tb == CUBLAS_OP_T };
	bool half = dlayout->type == CUDA_R_16BF;
	array to = { d, half }, bias = { desc->bias, half };
	cublasLtDesc is = *desc;
	cublasLtLayout layout = *dlayout;

	demand(*(const float *)alpha == 1 && *(const float *)beta == 0 && c == d,
		"a product that is scaled or added");
	demand_product(desc, alayout, blayout, clayout, dlayout);
	demand(algo->data[1] == (uint64_t)desc->epilogue, "an algorithm of another product");
	demand_aligned(a, 256, "A is not aligned");
	demand_aligned(b, 256, "B is not aligned");
	demand_aligned(d, 256, "D is not aligned");
	if (has_bias(desc))
		demand_aligned(desc->bias, algo->data[0],
			"a bias is not aligned as the heuristics were told");
	demand(workspace_bytes >= STAND_IN_WORKSPACE, "less workspace than the algorithm wants");
	if (fails_after == 0)
		return CUBLAS_STATUS_EXECUTION_FAILED;
	fails_after -= fails_after > 0;
	submit_product(stream, workspace, [=]() { multiply(is, fa, fb, layout, to, bias); });
	return CUBLAS_STATUS_SUCCESS;
}
}
