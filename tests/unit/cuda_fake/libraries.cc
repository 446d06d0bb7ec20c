/*
 * A machine with cuDNN and cuBLASLt, played by plain loops that are as strict as they are: what cuDNN
 * has no engine for is refused (test_trainer_dnn.c asks the real one), biases are of the output's
 * type, matrices begin at multiples of 256 bytes, and the workspace is written all over. There is no
 * NCCL.
 */
#include "cuda_on_cpu.h"
#include "trainer/backend/cuda/device.cuh"

extern "C" {
#include "trainer/backend/cuda/conv_dnn.h"
#include "trainer/backend/cuda/gemm_lt.h"
#include "trainer/backend/cuda/nccl.h"
}

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define WORKSPACE 4096 /* bytes that are written to show who else counts on them */

struct conv_dnn {
	conv_shape shape;
};

struct gemm_lt {
	gemm_shape shape;
};

static void demand(bool is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "fake libraries: %s\n", what);
	abort();
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

static void submit(cudaStream_t stream, void *workspace, std::function<void()> run)
{
	auto all = [=]() {
		memset(workspace, 0xff, WORKSPACE);
		run();
	};

	demand(workspace != NULL, "no workspace");
	if (cuda_on_cpu_submit)
		cuda_on_cpu_submit(stream, all);
	else
		all();
}

static void demand_aligned(const void *p, size_t to, const char *what)
{
	demand(p && (uintptr_t)p % to == 0, what);
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
									(size_t)s.c + c,
								(size_t)(k * s.r * s.r + t) * s.c + c,
								(size_t)((n * s.p + p) * s.q + q) *
									(size_t)s.k + k);
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

		(s.what == CONV_FORWARD ? y : s.what == CONV_DATA ? x : w)
			.set(i, s.relu && v < 0 ? 0 : v);
	}
}

static void multiply(const gemm_shape &s, array a, array b, array c, array bias)
{
	bool weights = s.what == GEMM_WEIGHTS;
	int rows = weights ? s.k : s.n, columns = s.what == GEMM_FORWARD ? s.k : s.c;
	int depth = s.what == GEMM_FORWARD ? s.c : weights ? s.n : s.k;

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			double sum = 0;
			float v;

			for (int d = 0; d < depth; d++)
				sum += s.what == GEMM_FORWARD ? (double)a[i * s.c + d] * b[j * s.c + d]
					: weights ? (double)b[d * s.k + i] * a[d * s.c + j]
						  : (double)a[i * s.k + d] * b[d * s.c + j];
			v = (float)sum + (s.bias && !weights ? bias[(size_t)j] : 0);
			c.set((size_t)(i * columns + j), s.relu && v < 0 ? 0 : v);
		}
	for (int i = 0; s.bias && weights && i < s.k; i++) {
		double sum = 0;

		for (int d = 0; d < s.n; d++)
			sum += b[(size_t)(d * s.k + i)];
		bias.set((size_t)i, (float)sum);
	}
}

extern "C" {

int conv_dnn_open(struct mlr_error *)
{
	return 0;
}

int gemm_lt_open(struct mlr_error *)
{
	return 0;
}

int conv_dnn_new(
	const conv_shape *s, size_t workspace, int, struct conv_dnn **ret, struct mlr_error *err)
{
	demand(workspace >= WORKSPACE, "too small a workspace");
	demand(s->what == CONV_FORWARD || (!s->bias && !s->relu), "a gradient with a bias or ReLU");
	if (s->dtype == DTYPE_BF16 && s->what == CONV_WEIGHTS)
		return mlr_fail(err, ENOTSUP, "no engine for f32 of bf16");
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
	submit(stream, workspace, [=]() {
		convolve(s, { x, half }, { w, half && s.what != CONV_WEIGHTS }, { b, half },
			{ y, half });
	});
	return 0;
}

int gemm_lt_new(
	const gemm_shape *s, size_t workspace, struct gemm_lt **ret, struct mlr_error *)
{
	demand(workspace >= WORKSPACE, "too small a workspace");
	demand(s->what == GEMM_FORWARD || !s->relu, "a gradient with ReLU");
	demand(s->what != GEMM_DATA || !s->bias, "a data gradient with a bias");
	*ret = new gemm_lt{ *s };
	return 0;
}

void gemm_lt_free(struct gemm_lt **g)
{
	delete *g;
	*g = NULL;
}

int gemm_lt_run(struct gemm_lt *g, const void *a, const void *b, void *c, void *bias,
	void *workspace, cudaStream_t stream, struct mlr_error *)
{
	gemm_shape s = g->shape;
	bool half = s.dtype == DTYPE_BF16, out = half && !s.c_is_f32;

	demand_aligned(a, 256, "a is not aligned");
	demand_aligned(b, 256, "b is not aligned");
	demand_aligned(c, 256, "c is not aligned");
	if (s.bias)
		demand_aligned(bias, 16, "a bias is not aligned");
	submit(stream, workspace, [=]() {
		multiply(s, { (void *)(uintptr_t)a, half }, { (void *)(uintptr_t)b, half },
			{ c, out }, { bias, out });
	});
	return 0;
}

int nccl_open(const struct exchange *, struct nccl **, struct mlr_error *err)
{
	return mlr_fail(err, ENOTSUP, "libnccl.so.2: cannot open shared object file");
}

void nccl_close(struct nccl **)
{
}

int nccl_sum(struct nccl *, const float *, float *, size_t, cudaStream_t, struct mlr_error *)
{
	abort();
}

int nccl_sum_double(
	struct nccl *, const double *, double *, size_t, cudaStream_t, struct mlr_error *)
{
	abort();
}
}
