/*
 * What is computed element by element: images into a network, ReLU, sums, dropout.
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/divide.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "tensor/philox.h"

#define ELEMENT_THREADS 256

/* A launch of a kernel that is a template over the numbers' type, with grid, threads and so on. */
#define LAUNCH_TYPED(dtype, KERNEL, ...)                                    \
	((dtype) == DTYPE_BF16 ? launch_elements(KERNEL<bf16>, __VA_ARGS__) \
			       : launch_elements(KERNEL<float>, __VA_ARGS__))

template <class... P, class... A>
static cudaError_t launch_elements(
	void (*kernel)(P...), size_t elements, cudaStream_t stream, A... args)
{
	if (!elements)
		return cudaSuccess;
	return launch(
		kernel, blocks_of(elements, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream, args...);
}

static __device__ __forceinline__ size_t first_element(void)
{
	return (size_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
}

static __device__ __forceinline__ size_t next_element(void)
{
	return (size_t)gridDim.x * ELEMENT_THREADS;
}

/* --- images: what batch_gather() (tensor/batch.h) says --- */

/* One image of a batch. */
struct source_image {
	const uint8_t *bytes; /* [c][h][w] */
	struct augment augment;
};

static __device__ __forceinline__ struct source_image source_row(
	const struct kernel_source &s, int row)
{
	size_t at = (size_t)(s.now ? *s.now : 0) * (size_t)s.rows + (size_t)row;
	size_t which = s.index ? s.index[at] : at;
	struct source_image ret = {};

	ret.bytes = s.images + which * (size_t)s.c * (size_t)s.h * (size_t)s.w;
	if (s.augment)
		ret.augment = s.augment[at];
	return ret;
}

/* The byte of channel c of pixel (i, j), which lies within the image; -1: it is cut out. */
static __device__ __forceinline__ int source_byte(
	const struct kernel_source &s, const struct source_image &image, int c, int i, int j)
{
	const struct augment &a = image.augment;
	int y, x;
	bool inside;

	if (!s.augment)
		return image.bytes[(c * s.h + i) * s.w + j];
	if (i >= a.cut_y && i < a.cut_y + a.cut && j >= a.cut_x && j < a.cut_x + a.cut)
		return -1;
	y = i - a.down;
	x = j - a.right;
	inside = (unsigned)y < (unsigned)s.h && (unsigned)x < (unsigned)s.w;
	return inside ? image.bytes[(c * s.h + y) * s.w + (a.flip ? s.w - 1 - x : x)] : 0;
}

/* The number that a byte of channel c stands for. */
static __device__ __forceinline__ float source_number(
	const struct kernel_source &s, int c, int byte)
{
	return byte < 0 ? 0 : ((float)byte - s.norm.mean[c]) / s.norm.scale[c];
}

/* A pixel a turn. */
template <class T>
__global__ void __launch_bounds__(ELEMENT_THREADS)
	gather(const struct kernel_source s, struct divisor by_pixels, struct divisor by_w, void *y)
{
	behind_previous();

	size_t n = (size_t)s.rows * (size_t)by_pixels.by;

	for (size_t e = first_element(); e < n; e += next_element()) {
		int pixel, j, row = divide(by_pixels, (int)e, &pixel), i = divide(by_w, pixel, &j);
		struct source_image image = source_row(s, row);

#pragma unroll
		for (int c = 0; c < IMAGE_CHANNELS_MAX; c++)
			if (c < s.c)
				store_one((T *)y + e * (size_t)s.c + c,
					source_number(s, c, source_byte(s, image, c, i, j)));
	}
}

cudaError_t kernel_gather(
	const struct kernel_source *from, enum dtype dtype, void *y, cudaStream_t stream)
{
	size_t pixels = (size_t)from->h * (size_t)from->w;

	if (from->c < 1 || from->c > IMAGE_CHANNELS_MAX || (size_t)from->rows * pixels > INT32_MAX)
		return cudaErrorInvalidValue;
	return LAUNCH_TYPED(dtype, gather, (size_t)from->rows * pixels, stream, *from,
		divisor_of((int)pixels), divisor_of(from->w), y);
}

/* --- ReLU and sums: a group a turn --- */

struct operands_of {
	size_t n;
	const void *a, *b;
	float scale;
	void *y;
	bool aligned;
};

static __device__ __forceinline__ int left(size_t n, size_t at)
{
	return n - at < GROUP ? (int)(n - at) : GROUP;
}

enum map { MAP_RELU, MAP_RELU_BACK, MAP_ADD, MAP_ADD_RELU };

static __device__ __forceinline__ float map_one(enum map map, float a, float b, float scale)
{
	if (map == MAP_RELU_BACK)
		return a > 0 ? b * scale : 0;
	if (map == MAP_ADD || map == MAP_ADD_RELU)
		a += b;
	return map != MAP_ADD && a < 0 ? 0 : a;
}

template <class T, enum map MAP>
__global__ void __launch_bounds__(ELEMENT_THREADS) map_groups(const struct operands_of o)
{
	behind_previous();

	for (size_t e = first_element() * GROUP; e < o.n; e += next_element() * GROUP) {
		struct group a = load_group((const T *)o.a + e, left(o.n, e), o.aligned), b = a;

		if (MAP != MAP_RELU)
			b = load_group((const T *)o.b + e, left(o.n, e), o.aligned);
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			a.v[i] = map_one(MAP, a.v[i], b.v[i], o.scale);
		store_group((T *)o.y + e, a, left(o.n, e), o.aligned);
	}
}

template <enum map MAP>
static cudaError_t launch_map(size_t n, enum dtype dtype, const void *a, const void *b, float scale,
	void *y, cudaStream_t stream)
{
	struct operands_of o = { n, a, b, scale, y,
		group_aligned(a) && (!b || group_aligned(b)) && group_aligned(y) };
	size_t groups = (n + GROUP - 1) / GROUP;

	return dtype == DTYPE_BF16 ? launch_elements(map_groups<bf16, MAP>, groups, stream, o)
				   : launch_elements(map_groups<float, MAP>, groups, stream, o);
}

cudaError_t kernel_relu_forward(
	size_t n, enum dtype dtype, const void *x, void *y, cudaStream_t stream)
{
	return launch_map<MAP_RELU>(n, dtype, x, NULL, 1, y, stream);
}

cudaError_t kernel_relu_backward(size_t n, enum dtype dtype, const void *y, const void *dy,
	float scale, void *dx, cudaStream_t stream)
{
	return launch_map<MAP_RELU_BACK>(n, dtype, y, dy, scale, dx, stream);
}

cudaError_t kernel_add(size_t n, enum dtype dtype, const void *a, const void *b, int relu, void *y,
	cudaStream_t stream)
{
	return relu ? launch_map<MAP_ADD_RELU>(n, dtype, a, b, 1, y, stream)
		    : launch_map<MAP_ADD>(n, dtype, a, b, 1, y, stream);
}

template <class T>
__global__ void __launch_bounds__(ELEMENT_THREADS) from_float(size_t n, const float *x, void *y)
{
	behind_previous();

	for (size_t e = first_element(); e < n; e += next_element())
		store_one((T *)y + e, x[e]);
}

cudaError_t kernel_from_float(
	size_t n, enum dtype dtype, const float *x, void *y, cudaStream_t stream)
{
	return LAUNCH_TYPED(dtype, from_float, n, stream, n, x, y);
}

template <class T>
__global__ void __launch_bounds__(ELEMENT_THREADS) as_floats(size_t n, const void *x, float *y)
{
	behind_previous();

	for (size_t e = first_element(); e < n; e += next_element())
		y[e] = to_float(((const T *)x)[e]);
}

cudaError_t kernel_to_float(
	size_t n, enum dtype dtype, const void *x, float *y, cudaStream_t stream)
{
	return LAUNCH_TYPED(dtype, as_floats, n, stream, n, x, y);
}

/* --- dropout --- */

struct dropout {
	struct kernel_dropout is;
	uint32_t threshold;
	float keep;
	struct divisor by_c, by_pixels;
};

/* Elements in memory's order; the numbers are named in the order [c][h][w]. */
template <class T>
__global__ void __launch_bounds__(ELEMENT_THREADS)
	drop(const struct dropout d, const void *x, void *y)
{
	behind_previous();

	const struct kernel_step *step = d.is.step + (d.is.now ? *d.is.now : 0);
	size_t image = (size_t)d.is.pixels * (size_t)d.is.c, n = (size_t)d.is.rows * image;

	for (size_t e = first_element(); e < n; e += next_element()) {
		int c, pixel, row = divide(d.by_pixels, divide(d.by_c, (int)e, &c), &pixel);
		uint64_t element = (d.is.first + (uint64_t)row) * image +
			(uint64_t)c * (uint64_t)d.is.pixels + (uint64_t)pixel;
		struct philox p = philox_dropout(
			step->seed, step->number, d.is.layer, (uint32_t)(element >> 2));
		uint32_t place = (uint32_t)element & 3;
		uint32_t word = place < 2 ? (place ? p.word[1] : p.word[0])
					  : (place == 2 ? p.word[2] : p.word[3]);

		store_one(
			(T *)y + e, word < d.threshold ? 0 : to_float(((const T *)x)[e]) * d.keep);
	}
}

cudaError_t kernel_dropout(const struct kernel_dropout *d, enum dtype dtype, const void *x, void *y,
	cudaStream_t stream)
{
	size_t n = (size_t)d->rows * (size_t)d->pixels * (size_t)d->c;
	struct dropout o = { *d, philox_threshold(d->rate), 1 / (1 - d->rate), divisor_of(d->c),
		divisor_of(d->pixels) };

	if (n > INT32_MAX)
		return cudaErrorInvalidValue;
	return LAUNCH_TYPED(dtype, drop, n, stream, o, x, y);
}
