/*
 * A machine with cuDNN, cuBLASLt and NCCL, played by cudnn.cc, cublas_lt.cc and nccl.cc.
 */
#include "stand_in.h"

extern "C" {
#include "backend/cuda/libraries/library.h"
}

#include <cublasLt.h>
#include <cudnn.h>
#include <errno.h>
#include <nccl.h>

static const char *missing; /* a library, by its name */

static int look_for(const char *soname, struct mlr_error *err)
{
	return missing && strcmp(missing, soname) == 0
		? mlr_fail(err, ENOENT, "%s: cannot open shared object file", soname)
		: 0;
}

extern "C" {

void cuda_fake_without(const char *soname)
{
	missing = soname;
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
	FUNCTION(cudnnCreate),
	FUNCTION(cudnnSetStream),
	FUNCTION(cudnnGetErrorString),
	FUNCTION(cudnnGetLastErrorString),
	FUNCTION(cudnnBackendCreateDescriptor),
	FUNCTION(cudnnBackendDestroyDescriptor),
	FUNCTION(cudnnBackendFinalize),
	FUNCTION(cudnnBackendSetAttribute),
	FUNCTION(cudnnBackendGetAttribute),
	FUNCTION(cudnnBackendExecute),
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
	demand(strcmp(soname, "libcudnn.so.9") == 0 || strcmp(soname, "libcublasLt.so.13") == 0 ||
			strcmp(soname, "libnccl.so.2") == 0,
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
