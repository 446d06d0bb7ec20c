/*
 * Pooling: each output, and each gradient of an input, is gathered by one thread, so that nothing
 * is added to by two. A turn is eight channels of a pixel.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/divide.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/reduce.cuh"

#define POOL_THREADS 256

struct pooling {
	struct kernel_pool d;
	int groups;                           /* of channels */
	struct divisor by_groups, by_w, by_h; /* of what turns are counted in: y or x */
	int turns;
	bool aligned;
};

/* Eight channels of a pixel. */
struct spot {
	int n, i, j, c, count;
};

static __device__ __forceinline__ struct spot spot_of(const struct pooling &p, int turn)
{
	struct spot s;
	int group, pixel = divide(p.by_groups, turn, &group), row = divide(p.by_w, pixel, &s.j);

	s.n = divide(p.by_h, row, &s.i);
	s.c = group * GROUP;
	s.count = p.d.c - s.c < GROUP ? p.d.c - s.c : GROUP;
	return s;
}

static __device__ __forceinline__ size_t x_at(
	const struct kernel_pool &d, const struct spot &s, int i, int j)
{
	return (((size_t)s.n * (size_t)d.h + (size_t)i) * (size_t)d.w + (size_t)j) * (size_t)d.c +
		(size_t)s.c;
}

static __device__ __forceinline__ size_t y_at(
	const struct kernel_pool &d, const struct spot &s, int p, int q)
{
	return (((size_t)s.n * (size_t)d.p + (size_t)p) * (size_t)d.q + (size_t)q) * (size_t)d.c +
		(size_t)s.c;
}

/* What tap (r, t) of a spot of y's window reads. */
template <class T>
static __device__ __forceinline__ struct group load_tap(
	const struct pooling &p, const void *x, const struct spot &s, int r, int t)
{
	return load_group((const T *)x + x_at(p.d, s, s.i * p.d.stride + r, s.j * p.d.stride + t),
		s.count, p.aligned);
}

#define FOR_TURNS(turn, p)                                                                \
	for (int turn = (int)(blockIdx.x * POOL_THREADS + threadIdx.x); turn < (p).turns; \
		turn += (int)(gridDim.x * POOL_THREADS))

template <class T>
__global__ void __launch_bounds__(POOL_THREADS)
	maxpool_forward(const struct pooling p, const void *x, void *y, uint8_t *winner)
{
	behind_previous();

	FOR_TURNS(turn, p)
	{
		struct spot s = spot_of(p, turn);
		struct group best = {};
		uint8_t place[GROUP] = {};

		for (int r = 0; r < p.d.size; r++)
			for (int t = 0; t < p.d.size; t++) {
				struct group g = load_tap<T>(p, x, s, r, t);

#pragma unroll
				for (int i = 0; i < GROUP; i++)
					if ((r == 0 && t == 0) || g.v[i] > best.v[i]) {
						best.v[i] = g.v[i];
						place[i] = (uint8_t)(r * p.d.size + t);
					}
			}
		store_group((T *)y + y_at(p.d, s, s.i, s.j), best, s.count, p.aligned);
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			if (i < s.count)
				winner[y_at(p.d, s, s.i, s.j) + i] = place[i];
	}
}

/* The windows [*from, *to) that cover position `at`. */
static __device__ __forceinline__ void windows_of(
	const struct kernel_pool &d, int at, int limit, int *from, int *to)
{
	*from = at < d.size ? 0 : (at - d.size) / d.stride + 1;
	*to = at / d.stride + 1;
	*to = *to > limit ? limit : *to;
}

/* winner: of maxima; NULL: of means. */
template <class T, bool MEAN>
__global__ void __launch_bounds__(POOL_THREADS)
	pool_backward(const struct pooling p, const void *dy, const uint8_t *winner, void *dx)
{
	behind_previous();

	FOR_TURNS(turn, p)
	{
		struct spot s = spot_of(p, turn);
		struct group sum = {};
		int p0, p1, q0, q1;

		windows_of(p.d, s.i, p.d.p, &p0, &p1);
		windows_of(p.d, s.j, p.d.q, &q0, &q1);
		for (int a = p0; a < p1; a++)
			for (int b = q0; b < q1; b++) {
				size_t at = y_at(p.d, s, a, b);
				struct group g = load_group((const T *)dy + at, s.count, p.aligned);
				int place =
					(s.i - a * p.d.stride) * p.d.size + s.j - b * p.d.stride;

#pragma unroll
				for (int i = 0; i < GROUP; i++)
					if (MEAN || (i < s.count && winner[at + i] == place))
						sum.v[i] += g.v[i];
			}
		if (MEAN)
			divide_group(&sum, (float)(p.d.size * p.d.size));
		store_group((T *)dx + x_at(p.d, s, s.i, s.j), sum, s.count, p.aligned);
	}
}

template <class T>
__global__ void __launch_bounds__(POOL_THREADS)
	avgpool_forward(const struct pooling p, const void *x, void *y)
{
	behind_previous();

	FOR_TURNS(turn, p)
	{
		struct spot s = spot_of(p, turn);
		struct group sum = {};

		for (int r = 0; r < p.d.size; r++)
			for (int t = 0; t < p.d.size; t++)
				add_group(&sum, load_tap<T>(p, x, s, r, t));
		divide_group(&sum, (float)(p.d.size * p.d.size));
		store_group((T *)y + y_at(p.d, s, s.i, s.j), sum, s.count, p.aligned);
	}
}

/* Turns are the spots of an array of h x w pixels; arrays a and b must both be aligned. */
static struct pooling pooling_of(
	const struct kernel_pool *d, int h, int w, const void *a, const void *b)
{
	int groups = ceil_div(d->c, GROUP);
	long long turns = (long long)d->n * h * w * groups;
	struct pooling p = {};

	p.d = *d;
	p.groups = groups;
	p.by_groups = divisor_of(p.groups);
	p.by_w = divisor_of(w);
	p.by_h = divisor_of(h);
	p.turns = turns > INT32_MAX - 8 * KERNEL_SM * POOL_THREADS ? -1 : (int)turns;
	p.aligned = d->c % GROUP == 0 && group_aligned(a) && group_aligned(b);
	return p;
}

template <class... P, class... A>
static cudaError_t launch_pool(
	void (*kernel)(P...), const struct pooling &p, cudaStream_t stream, A... args)
{
	if (p.turns <= 0 || p.d.stride < 1 || p.d.size < 1 || p.d.size > 15)
		return cudaErrorInvalidValue;
	return launch(kernel, blocks_of((size_t)p.turns, POOL_THREADS), POOL_THREADS, 0, stream, p,
		args...);
}

#define POOL_TYPED(dtype, KERNEL, ...)                                  \
	((dtype) == DTYPE_BF16 ? launch_pool(KERNEL<bf16>, __VA_ARGS__) \
			       : launch_pool(KERNEL<float>, __VA_ARGS__))

template <bool MEAN>
static cudaError_t launch_backward(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	const uint8_t *winner, void *dx, cudaStream_t stream)
{
	struct pooling p = pooling_of(d, d->h, d->w, dy, dx);

	return dtype == DTYPE_BF16
		? launch_pool(pool_backward<bf16, MEAN>, p, stream, dy, winner, dx)
		: launch_pool(pool_backward<float, MEAN>, p, stream, dy, winner, dx);
}

cudaError_t kernel_maxpool_forward(const struct kernel_pool *d, enum dtype dtype, const void *x,
	void *y, uint8_t *winner, cudaStream_t stream)
{
	return POOL_TYPED(
		dtype, maxpool_forward, pooling_of(d, d->p, d->q, x, y), stream, x, y, winner);
}

cudaError_t kernel_maxpool_backward(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	const uint8_t *winner, void *dx, cudaStream_t stream)
{
	return launch_backward<false>(d, dtype, dy, winner, dx, stream);
}

cudaError_t kernel_avgpool_forward(
	const struct kernel_pool *d, enum dtype dtype, const void *x, void *y, cudaStream_t stream)
{
	return POOL_TYPED(dtype, avgpool_forward, pooling_of(d, d->p, d->q, x, y), stream, x, y);
}

cudaError_t kernel_avgpool_backward(const struct kernel_pool *d, enum dtype dtype, const void *dy,
	void *dx, cudaStream_t stream)
{
	return launch_backward<true>(d, dtype, dy, NULL, dx, stream);
}

/* --- the mean of a whole channel --- */

struct whole {
	int n, pixels, c, groups;
	bool aligned;
};

template <class T>
__global__ void __launch_bounds__(POOL_THREADS)
	globalpool_forward(const struct whole d, const void *x, void *y)
{
	behind_previous();

	int turns = d.n * d.groups, step = (int)(gridDim.x * POOL_THREADS);

	for (int turn = (int)(blockIdx.x * POOL_THREADS + threadIdx.x); turn < turns;
		turn += step) {
		int n = turn / d.groups, c = turn % d.groups * GROUP;
		int count = d.c - c < GROUP ? d.c - c : GROUP;
		struct group sum = {};

		for (int i = 0; i < d.pixels; i++)
			add_group(&sum,
				load_group((const T *)x +
						((size_t)n * (size_t)d.pixels + (size_t)i) *
							(size_t)d.c +
						c,
					count, d.aligned));
		divide_group(&sum, (float)d.pixels);
		store_group((T *)y + (size_t)n * (size_t)d.c + c, sum, count, d.aligned);
	}
}

template <class T>
__global__ void __launch_bounds__(POOL_THREADS)
	globalpool_backward(const struct whole d, const void *dy, void *dx)
{
	behind_previous();

	size_t turns = (size_t)d.n * (size_t)d.pixels * (size_t)d.groups;
	size_t step = (size_t)gridDim.x * POOL_THREADS;

	for (size_t turn = (size_t)blockIdx.x * POOL_THREADS + threadIdx.x; turn < turns;
		turn += step) {
		size_t pixel = turn / (size_t)d.groups, n = pixel / (size_t)d.pixels;
		int c = (int)(turn % (size_t)d.groups) * GROUP;
		int count = d.c - c < GROUP ? d.c - c : GROUP;
		struct group g = load_group((const T *)dy + n * (size_t)d.c + c, count, d.aligned);

		divide_group(&g, (float)d.pixels);
		store_group((T *)dx + pixel * (size_t)d.c + c, g, count, d.aligned);
	}
}

static struct whole whole_of(int n, int pixels, int c, const void *a, const void *b)
{
	struct whole d = { n, pixels, c, ceil_div(c, GROUP),
		c % GROUP == 0 && group_aligned(a) && group_aligned(b) };

	return d;
}

cudaError_t kernel_globalpool_forward(
	int n, int pixels, int c, enum dtype dtype, const void *x, void *y, cudaStream_t stream)
{
	struct whole d = whole_of(n, pixels, c, x, y);
	unsigned blocks = blocks_of((size_t)n * (size_t)d.groups, POOL_THREADS);

	return dtype == DTYPE_BF16
		? launch(globalpool_forward<bf16>, blocks, POOL_THREADS, 0, stream, d, x, y)
		: launch(globalpool_forward<float>, blocks, POOL_THREADS, 0, stream, d, x, y);
}

cudaError_t kernel_globalpool_backward(
	int n, int pixels, int c, enum dtype dtype, const void *dy, void *dx, cudaStream_t stream)
{
	struct whole d = whole_of(n, pixels, c, dy, dx);
	unsigned blocks = blocks_of((size_t)n * (size_t)pixels * (size_t)d.groups, POOL_THREADS);

	return dtype == DTYPE_BF16
		? launch(globalpool_backward<bf16>, blocks, POOL_THREADS, 0, stream, d, dy, dx)
		: launch(globalpool_backward<float>, blocks, POOL_THREADS, 0, stream, d, dy, dx);
}
