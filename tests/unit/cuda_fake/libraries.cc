/*
 * A machine with cuDNN, cuBLASLt and NCCL. cuDNN is played here by plain loops that are as strict
 * as it is: what it has no engine for is refused (test_trainer_dnn.c asks the real one), all arrays
 * are of one type, and the workspace is written all over. The others are in cublas_lt.cc and
 * nccl.cc, with gemm_lt.c and nccl.c in front of them.
 */
#include "stand_in.h"

extern "C" {
#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/library.h"
}

#include <cublasLt.h>
#include <errno.h>
#include <nccl.h>
#include <vector>

struct conv_dnn {
	conv_shape shape;
};

static const char *missing; /* a library, by its name */

static int look_for(const char *soname, struct mlr_error *err)
{
	return missing && strcmp(missing, soname) == 0
		? mlr_fail(err, ENOENT, "%s: cannot open shared object file", soname)
		: 0;
}

/* Call visit(x's, w's, y's place) for every product of the convolution. */
template <class V> static void for_products(const conv_shape &s, V visit)
{
	for (int n = 0; n < s.n; n++)
		for (int p = 0; p < s.p; p++)
			for (int q = 0; q < s.q; q++)
				for (int k = 0; k < s.k; k++)
					for (int t = 0; t < s.r * s.r; t++) {
						int i = p * s.stride - s.pad + t / s.r;
						int j = q * s.stride - s.pad + t % s.r;

						if (i < 0 || j < 0 || i >= s.h || j >= s.w)
							continue;
						for (int c = 0; c < s.c; c++)
							visit((size_t)((n * s.h + i) * s.w + j) *
										(size_t)s.c +
									c,
								(size_t)(k * s.r * s.r + t) * s.c +
									c,
								(size_t)((n * s.p + p) * s.q + q) *
										(size_t)s.k +
									k);
					}
}

static void convolve(const conv_shape &s, array x, array w, array b, array y)
{
	size_t xs = (size_t)s.n * s.h * s.w * s.c, ys = (size_t)s.n * s.p * s.q * s.k;
	size_t ws = (size_t)s.k * s.r * s.r * s.c;
	std::vector<double> sum(s.what == CONV_FORWARD ? ys : s.what == CONV_DATA ? xs : ws);

	for_products(s, [&](size_t xi, size_t wi, size_t yi) {
		if (s.what == CONV_FORWARD)
			sum[yi] += (double)x[xi] * w[wi];
		else if (s.what == CONV_DATA)
			sum[xi] += (double)y[yi] * w[wi];
		else
			sum[wi] += (double)x[xi] * y[yi];
	});
	for (size_t i = 0; i < sum.size(); i++) {
		float v = (float)sum[i] + (s.bias ? b[i % (size_t)s.k] : 0);

		(s.what == CONV_FORWARD               ? y
				: s.what == CONV_DATA ? x
						      : w)
			.set(i, s.relu && v < 0 ? 0 : v);
	}
}

extern "C" {

void cuda_fake_without(const char *soname)
{
	missing = soname;
}

int conv_dnn_open(struct mlr_error *err)
{
	return look_for("libcudnn.so.9", err);
}

int conv_dnn_new(
	const conv_shape *s, size_t workspace, struct conv_dnn **ret, struct mlr_error *err)
{
	demand(workspace >= STAND_IN_WORKSPACE, "too small a workspace");
	demand(s->what == CONV_FORWARD || (!s->bias && !s->relu), "a gradient with a bias or ReLU");
	if (s->relu && !s->bias)
		return mlr_fail(err, ENOTSUP, "only engines that are compiled first");
	*ret = new conv_dnn{ *s };
	return 0;
}

void conv_dnn_free(struct conv_dnn **c)
{
	delete *c;
	*c = NULL;
}

int conv_dnn_run(struct conv_dnn *c, void *x, void *w, void *b, void *y, void *workspace,
	cudaStream_t stream, struct mlr_error *)
{
	conv_shape s = c->shape;
	bool half = s.dtype == DTYPE_BF16;

	demand_aligned(x, 16, "x is not aligned");
	demand_aligned(w, 16, "w is not aligned");
	demand_aligned(y, 16, "y is not aligned");
	if (s.bias)
		demand_aligned(b, 16, "b is not aligned");
	submit_product(stream, workspace, [=]() {
		convolve(s, { x, half }, { w, half }, { b, half }, { y, half });
	});
	return 0;
}

/* What stands for a library's functions. */
#define FUNCTION(name)                      \
	{                                   \
#name, (void (*)(void))name \
	}
static const struct {
	const char *name;
	void (*function)(void);
} functions[] = {
	FUNCTION(cublasLtCreate),
	FUNCTION(cublasLtGetStatusString),
	FUNCTION(cublasLtMatmul),
	FUNCTION(cublasLtMatmulAlgoGetHeuristic),
	FUNCTION(cublasLtMatmulDescCreate),
	FUNCTION(cublasLtMatmulDescDestroy),
	FUNCTION(cublasLtMatmulDescSetAttribute),
	FUNCTION(cublasLtMatrixLayoutCreate),
	FUNCTION(cublasLtMatrixLayoutDestroy),
	FUNCTION(cublasLtMatmulPreferenceCreate),
	FUNCTION(cublasLtMatmulPreferenceDestroy),
	FUNCTION(cublasLtMatmulPreferenceSetAttribute),
	FUNCTION(ncclGetUniqueId),
	FUNCTION(ncclCommInitRankConfig),
	FUNCTION(ncclCommDestroy),
	FUNCTION(ncclCommAbort),
	FUNCTION(ncclCommGetAsyncError),
	FUNCTION(ncclAllReduce),
	FUNCTION(ncclGetErrorString),
};

int library_open(
	const char *soname, const struct library_symbol *symbols, size_t n, struct mlr_error *err)
{
	if (look_for(soname, err) < 0)
		return -ENOENT;
	demand(strcmp(soname, "libcublasLt.so.13") == 0 || strcmp(soname, "libnccl.so.2") == 0,
		soname);
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < sizeof(functions) / sizeof(*functions) &&
			strcmp(functions[k].name, symbols[i].name) != 0)
			k++;
		demand(k < sizeof(functions) / sizeof(*functions), symbols[i].name);
		memcpy(symbols[i].at, &functions[k].function, sizeof(functions[k].function));
	}
	return 0;
}
}
