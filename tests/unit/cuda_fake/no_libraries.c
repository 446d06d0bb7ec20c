/* A machine without cuDNN, cuBLASLt and NCCL: kernels of our own and the exchange do it all. */
#include "backend/cuda/libraries/conv_dnn.h"
#include "backend/cuda/libraries/gemm_lt.h"
#include "backend/cuda/libraries/nccl.h"

#include <errno.h>
#include <stdlib.h>

int conv_dnn_open(struct mlr_error *err)
{
	return mlr_fail(err, ENOENT, "libcudnn.so.9: cannot open shared object file");
}

int gemm_lt_open(struct mlr_error *err)
{
	return mlr_fail(err, ENOENT, "libcublasLt.so.13: cannot open shared object file");
}

int nccl_open(const struct exchange *x, const struct device *device, struct nccl **ret,
	struct mlr_error *err)
{
	(void)x;
	(void)device;
	(void)ret;
	return mlr_fail(err, ENOTSUP, "libnccl.so.2: cannot open shared object file");
}

void nccl_close(struct nccl **n)
{
	(void)n;
}

/* Nothing below can be asked for, as nothing above gives what it wants. */
int conv_dnn_new(const struct conv_shape *shape, size_t workspace, int which, struct conv_dnn **ret,
	struct mlr_error *err)
{
	(void)shape;
	(void)workspace;
	(void)which;
	(void)ret;
	(void)err;
	abort();
}

void conv_dnn_free(struct conv_dnn **c)
{
	(void)c;
}

int conv_dnn_run(struct conv_dnn *c, void *x, void *w, void *b, void *y, void *workspace,
	cudaStream_t stream, struct mlr_error *err)
{
	(void)c;
	(void)x;
	(void)w;
	(void)b;
	(void)y;
	(void)workspace;
	(void)stream;
	(void)err;
	abort();
}

int gemm_lt_new(const struct gemm_shape *shape, size_t workspace, int which, struct gemm_lt **ret,
	struct mlr_error *err)
{
	(void)shape;
	(void)workspace;
	(void)which;
	(void)ret;
	(void)err;
	abort();
}

void gemm_lt_free(struct gemm_lt **g)
{
	(void)g;
}

int gemm_lt_run(struct gemm_lt *g, const void *a, const void *b, void *c, void *bias,
	void *workspace, cudaStream_t stream, struct mlr_error *err)
{
	(void)g;
	(void)a;
	(void)b;
	(void)c;
	(void)bias;
	(void)workspace;
	(void)stream;
	(void)err;
	abort();
}

int nccl_sum(struct nccl *n, const void *from, void *to, size_t count, enum nccl_number is,
	cudaStream_t stream, struct mlr_error *err)
{
	(void)n;
	(void)from;
	(void)to;
	(void)count;
	(void)is;
	(void)stream;
	(void)err;
	abort();
}

int nccl_wait(struct nccl *n, cudaStream_t stream, struct mlr_error *err)
{
	(void)n;
	(void)stream;
	(void)err;
	abort();
}
