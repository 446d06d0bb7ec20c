/*
 * Batch norm over rows of channels. The sums are made in two stages, in double, in an order that
 * the shape decides; all else is one pass.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/divide.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define NORM_THREADS  256
#define NORM_CHANNELS 32 /* of a block that sums; its threads are 8 rows of so many */
#define NORM_ROWS     (NORM_THREADS / NORM_CHANNELS)

struct norm {
	struct kernel_norm d;
	const void *x, *dy, *y;
	const float *saved;
	double *partial, *sums;
	float *rounded; /* instead of sums: those of x alone */
	uint32_t *ticket;
	struct divisor by_groups;
	bool aligned;
};

int kernel_norm_splits(const struct kernel_norm *d)
{
	size_t splits = (d->rows + 16 * NORM_ROWS - 1) / (16 * NORM_ROWS);
	size_t most = (size_t)(2 * KERNEL_SM / ((d->c + NORM_CHANNELS - 1) / NORM_CHANNELS));

	splits = splits > most ? most : splits;
	return splits < 1 ? 1 : (int)splits;
}

/* --- sums --- */

/* What one element adds to both sums. */
template <class T>
static __device__ __forceinline__ void add_element(
	const struct norm &o, size_t at, int c, double sum[2])
{
	double x = to_float(((const T *)o.x)[at]);
	double dy;

	if (!o.dy) {
		sum[0] += x;
		sum[1] += x * x;
		return;
	}
	dy = to_float(((const T *)o.dy)[at]);
	if (o.y && !(to_float(((const T *)o.y)[at]) > 0))
		dy = 0;
	sum[0] += dy;
	sum[1] += dy * (x - (double)o.saved[c]) * (double)o.saved[o.d.c + c];
}

/* Every channel's partial sums, added up by the last block. */
static __device__ void add_splits(const struct norm &o)
{
	int n = 2 * o.d.c;

	for (int i = (int)threadIdx.x; i < n; i += NORM_THREADS) {
		double sum = 0;

		for (unsigned s = 0; s < gridDim.x; s++)
			sum += __ldcg(o.partial + (size_t)s * (size_t)n + i);
		if (o.sums)
			o.sums[i] = sum;
		else if (i < o.d.c)
			o.rounded[i] = (float)sum;
	}
}

template <class T> __global__ void __launch_bounds__(NORM_THREADS) norm_sums(const struct norm o)
{
	behind_previous();

	double *share = (double *)(void *)shared_memory(); /* [2][NORM_THREADS] */
	volatile unsigned *last = (volatile unsigned *)(void *)(share + 2 * NORM_THREADS);
	int channel = (int)threadIdx.x % NORM_CHANNELS;
	int c = (int)blockIdx.y * NORM_CHANNELS + channel;
	size_t from = o.d.rows * blockIdx.x / gridDim.x,
	       to = o.d.rows * (blockIdx.x + 1) / gridDim.x;
	double sum[2] = {};

	for (size_t row = from + threadIdx.x / NORM_CHANNELS; c < o.d.c && row < to;
		row += NORM_ROWS)
		add_element<T>(o, row * (size_t)o.d.c + (size_t)c, c, sum);
	share[threadIdx.x] = sum[0];
	share[NORM_THREADS + threadIdx.x] = sum[1];
	__syncthreads();
	if (threadIdx.x < 2 * NORM_CHANNELS) {
		int which = (int)threadIdx.x / NORM_CHANNELS;
		double total = 0;

		for (int r = 0; r < NORM_ROWS; r++)
			total += share[which * NORM_THREADS + r * NORM_CHANNELS + channel];
		if (c < o.d.c)
			o.partial[((size_t)blockIdx.x * 2 + (size_t)which) * (size_t)o.d.c +
				(size_t)c] = total;
		__threadfence();
	}
	__syncthreads();
	if (threadIdx.x == 0)
		*last = atomicInc(o.ticket, gridDim.x * gridDim.y - 1) == gridDim.x * gridDim.y - 1;
	__syncthreads();
	if (!*last)
		return;

	__threadfence();
	add_splits(o);
}

static struct norm norm_of(const struct kernel_norm *d, const void *x, const void *a, const void *b)
{
	struct norm o = {};

	o.d = *d;
	o.x = x;
	o.by_groups = divisor_of(ceil_div(d->c, GROUP));
	o.aligned = d->c % GROUP == 0 && group_aligned(x) && group_aligned(a) && group_aligned(b);
	return o;
}

static cudaError_t launch_sums(const struct norm &o, enum dtype dtype, cudaStream_t stream)
{
	dim3 grid((unsigned)kernel_norm_splits(&o.d),
		(unsigned)((o.d.c + NORM_CHANNELS - 1) / NORM_CHANNELS));
	size_t bytes = (2 * NORM_THREADS + 1) * sizeof(double);

	return dtype == DTYPE_BF16 ? launch(norm_sums<bf16>, grid, NORM_THREADS, bytes, stream, o)
				   : launch(norm_sums<float>, grid, NORM_THREADS, bytes, stream, o);
}

cudaError_t kernel_norm_sums(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const void *dy, const void *y, const float *saved, double *partial, double *sums,
	uint32_t *ticket, cudaStream_t stream)
{
	struct norm o = norm_of(d, x, NULL, NULL);

	o.dy = dy;
	o.y = d->relu ? y : NULL;
	o.saved = saved;
	o.partial = partial;
	o.sums = sums;
	o.ticket = ticket;
	return launch_sums(o, dtype, stream);
}

cudaError_t kernel_channel_sums(const struct kernel_norm *d, enum dtype dtype, const void *x,
	double *partial, float *sums, uint32_t *ticket, cudaStream_t stream)
{
	struct norm o = norm_of(d, x, NULL, NULL);

	o.partial = partial;
	o.rounded = sums;
	o.ticket = ticket;
	return launch_sums(o, dtype, stream);
}

/* --- what a channel's statistics are --- */

__global__ void __launch_bounds__(NORM_THREADS) norm_statistics(
	const struct kernel_norm d, const double *sums, float *saved, float *running)
{
	behind_previous();

	int step = (int)(gridDim.x * NORM_THREADS);

	for (int c = (int)(blockIdx.x * NORM_THREADS + threadIdx.x); c < d.c; c += step) {
		double mean = sums[c] / d.all_rows;
		double variance = sums[d.c + c] / d.all_rows - mean * mean;
		double unbiased;

		variance = variance < 0 ? 0 : variance;
		unbiased = d.all_rows > 1 ? variance * d.all_rows / (d.all_rows - 1) : variance;
		saved[c] = (float)mean;
		saved[d.c + c] = (float)(1 / sqrt(variance + (double)d.epsilon));
		if (!running)
			continue;
		running[c] = (1 - d.momentum) * running[c] + d.momentum * (float)mean;
		running[d.c + c] =
			(1 - d.momentum) * running[d.c + c] + d.momentum * (float)unbiased;
	}
}

/* --- one pass over all elements: a group of channels a turn --- */

/* The second half of statistics is 1 / deviation, or, predicting, the variance. */
template <class T>
__global__ void __launch_bounds__(NORM_THREADS) norm_apply(const struct norm o, bool is_variance,
	const float *statistics, const float *gamma, const float *beta, void *y)
{
	behind_previous();

	size_t turns = o.d.rows * (size_t)o.by_groups.by, step = (size_t)gridDim.x * NORM_THREADS;

	for (size_t turn = (size_t)blockIdx.x * NORM_THREADS + threadIdx.x; turn < turns;
		turn += step) {
		int group, row = divide(o.by_groups, (int)turn, &group), c = group * GROUP;
		int count = o.d.c - c < GROUP ? o.d.c - c : GROUP;
		size_t at = (size_t)row * (size_t)o.d.c + (size_t)c;
		struct group g = load_group((const T *)o.x + at, count, o.aligned);

#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			float scale;

			if (i >= count)
				continue;
			scale = statistics[o.d.c + c + i];
			if (is_variance)
				scale = 1 / sqrtf(scale + o.d.epsilon);
			g.v[i] =
				gamma[c + i] * ((g.v[i] - statistics[c + i]) * scale) + beta[c + i];
			if (o.d.relu)
				g.v[i] = g.v[i] < 0 ? 0 : g.v[i];
		}
		store_group((T *)y + at, g, count, o.aligned);
	}
}

static cudaError_t apply(const struct kernel_norm *d, enum dtype dtype, const void *x,
	bool is_variance, const float *statistics, const float *gamma, const float *beta, void *y,
	cudaStream_t stream)
{
	struct norm o = norm_of(d, x, y, NULL);
	size_t turns = d->rows * (size_t)o.by_groups.by;

	if (turns > INT32_MAX)
		return cudaErrorInvalidValue;
	return dtype == DTYPE_BF16
		? launch(norm_apply<bf16>, blocks_of(turns, NORM_THREADS), NORM_THREADS, 0, stream,
			  o, is_variance, statistics, gamma, beta, y)
		: launch(norm_apply<float>, blocks_of(turns, NORM_THREADS), NORM_THREADS, 0, stream,
			  o, is_variance, statistics, gamma, beta, y);
}

cudaError_t kernel_norm_forward(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const double *sums, const float *gamma, const float *beta, float *saved, float *running,
	void *y, cudaStream_t stream)
{
	cudaError_t r = launch(norm_statistics, blocks_of((size_t)d->c, NORM_THREADS), NORM_THREADS,
		0, stream, *d, sums, saved, running);

	return r != cudaSuccess ? r : apply(d, dtype, x, false, saved, gamma, beta, y, stream);
}

cudaError_t kernel_norm_predict(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const float *running, const float *gamma, const float *beta, void *y, cudaStream_t stream)
{
	return apply(d, dtype, x, true, running, gamma, beta, y, stream);
}

template <class T>
__global__ void __launch_bounds__(NORM_THREADS) norm_backward(const struct norm o,
	const double *local, const float *gamma, float *dgamma, float *dbeta, void *dx)
{
	behind_previous();

	size_t turns = o.d.rows * (size_t)o.by_groups.by, step = (size_t)gridDim.x * NORM_THREADS;
	size_t first = (size_t)blockIdx.x * NORM_THREADS + threadIdx.x;

	for (size_t c = first; c < (size_t)o.d.c; c += step) {
		dbeta[c] = (float)local[c];
		dgamma[c] = (float)local[(size_t)o.d.c + c];
	}
	for (size_t turn = first; turn < turns; turn += step) {
		int group, row = divide(o.by_groups, (int)turn, &group), c = group * GROUP;
		int count = o.d.c - c < GROUP ? o.d.c - c : GROUP;
		size_t at = (size_t)row * (size_t)o.d.c + (size_t)c;
		struct group x = load_group((const T *)o.x + at, count, o.aligned);
		struct group g = load_group((const T *)o.dy + at, count, o.aligned), y = {};

		if (o.y)
			y = load_group((const T *)o.y + at, count, o.aligned);
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			float scale, normed, mean, slope;

			if (i >= count)
				continue;
			scale = o.saved[o.d.c + c + i];
			normed = (x.v[i] - o.saved[c + i]) * scale;
			mean = (float)(o.sums[c + i] / o.d.all_rows);
			slope = (float)(o.sums[o.d.c + c + i] / o.d.all_rows);
			if (o.y && !(y.v[i] > 0))
				g.v[i] = 0;
			g.v[i] = gamma[c + i] * scale * (g.v[i] - mean - normed * slope);
		}
		store_group((T *)dx + at, g, count, o.aligned);
	}
}

cudaError_t kernel_norm_backward(const struct kernel_norm *d, enum dtype dtype, const void *x,
	const void *dy, const void *y, const double *sums, const double *local, const float *gamma,
	const float *saved, float *dgamma, float *dbeta, void *dx, cudaStream_t stream)
{
	struct norm o = norm_of(d, x, dy, dx);
	size_t turns = d->rows * (size_t)o.by_groups.by;

	o.dy = dy;
	o.y = d->relu ? y : NULL;
	o.aligned = o.aligned && (!o.y || group_aligned(y));
	o.sums = (double *)(uintptr_t)sums;
	o.saved = saved;
	if (turns > INT32_MAX)
		return cudaErrorInvalidValue;
	return dtype == DTYPE_BF16
		? launch(norm_backward<bf16>, blocks_of(turns, NORM_THREADS), NORM_THREADS, 0,
			  stream, o, local, gamma, dgamma, dbeta, dx)
		: launch(norm_backward<float>, blocks_of(turns, NORM_THREADS), NORM_THREADS, 0,
			  stream, o, local, gamma, dgamma, dbeta, dx);
}
