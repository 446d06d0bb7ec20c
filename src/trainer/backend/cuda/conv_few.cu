/*
 * The convolution of images of few channels, straight from their bytes: a block takes a band of an
 * image's output rows, brings the part of the image that they read into shared memory as numbers
 * (with its border of zeros), and multiplies from there: a tap is an offset from its pixel, so
 * nothing is copied once for each tap.
 *
 *   forward    (rows: pixels of the band, columns: 32 of k, depth: taps)
 *   weights    (rows: 32 of k, columns: 32 of the taps, depth: pixels of the band)
 */
#include "trainer/backend/cuda/kernels.h"

#include "trainer/backend/cuda/device.cuh"
#include "trainer/backend/cuda/divide.cuh"
#include "trainer/backend/cuda/group.cuh"
#include "trainer/backend/cuda/source.cuh"
#include "trainer/backend/cuda/tile.cuh"

#define FEW_THREADS 256
#define FEW_WARPS   (FEW_THREADS / WARP)
#define FEW_K       32 /* of k and of taps that a block takes */
#define FEW_TAPS    128
#define FEW_BYTES   (48 * 1024) /* of shared memory */

struct few {
	struct kernel_conv d;
	struct kernel_source from;
	const void *w, *dy;
	void *y;
	const uint8_t *winners;
	struct after after;
	int pooled;
	int band, bands; /* output rows at once, even when pooled; how many make an image */
	int taps, depth; /* c * r * r, and that rounded up to 16 */
	int in_w, in_rows; /* of the part in shared memory, border included */
	struct divisor by_q, by_c, by_in_w, by_s, by_depth;
	float *partial;
	size_t partial_stride;
};

/* --- a band in shared memory --- */

/* What output rows [p0, p0 + band) read of image n, with its border. */
template <class T>
static __device__ void bring_band(const struct few &f, int n, int p0, T *to)
{
	struct source_image image = source_row(f.from, n);
	int spots = f.in_rows * f.in_w;

	for (int e = (int)threadIdx.x; e < spots; e += FEW_THREADS) {
		int j, i = divide(f.by_in_w, e, &j) + p0 * f.d.stride - f.d.pad;

		j -= f.d.pad;
		for (int c = 0; c < f.d.c; c++) {
			bool inside = (unsigned)i < (unsigned)f.d.h && (unsigned)j < (unsigned)f.d.w;

			store_one(to + e * f.d.c + c,
				inside ? source_value(f.from, image, c, i, j) : 0.0f);
		}
	}
}

/* Where a tap lies from its pixel's upper left; taps beyond the last read the first. */
static __device__ __forceinline__ int tap_offset(const struct few &f, int tap)
{
	int c, s, r;

	if (tap >= f.taps)
		return 0;
	r = divide(f.by_s, divide(f.by_c, tap, &c), &s);
	return (r * f.in_w + s) * f.d.c + c;
}

/* Where the upper left tap of the band's output (p, q) lies. */
static __device__ __forceinline__ int pixel_offset(const struct few &f, int p, int q)
{
	return (p * f.in_w + q) * f.d.stride * f.d.c;
}

static __device__ __forceinline__ uint32_t pair_of(const bf16 *low, const bf16 *high)
{
	return low->bits | (uint32_t)high->bits << 16;
}

/* --- forward --- */

/* 32 of the filters [FEW_K][pitch], zeros beyond the last tap and the last filter. */
template <class T>
static __device__ void bring_filters(const struct few &f, int k0, int pitch, T *to)
{
	for (int e = (int)threadIdx.x; e < FEW_K * f.depth; e += FEW_THREADS) {
		int tap, k = divide(f.by_depth, e, &tap);
		bool is = tap < f.taps && k0 + k < f.d.k;

		to[k * pitch + tap] = is
			? ((const T *)f.w)[(size_t)(k0 + k) * (size_t)f.taps + (size_t)tap]
			: T();
	}
}

/* The upper left tap of the band's pixel m; a pixel beyond the last reads the first. */
static __device__ __forceinline__ int band_pixel(const struct few &f, int m, int count)
{
	int p, q;

	if (m >= count)
		return 0;
	p = divide(f.by_q, f.pooled ? m >> 2 : m, &q);
	if (f.pooled) {
		p = 2 * p + (m >> 1 & 1);
		q = 2 * q + (m & 1);
	}
	return pixel_offset(f, p, q);
}

/* 16 pixels (their upper left taps: this lane's are a and b) times 32 filters. */
static __device__ __forceinline__ void multiply_few(const struct few &f, const bf16 *image, int a,
	int b, const uint16_t *offset, const bf16 *filters, int pitch, float sum[4][4])
{
	int lane = (int)threadIdx.x % WARP, t = lane % 4, low = lane & 7, second = lane >> 3 & 1,
	    third = lane >> 4;

	for (int k = 0; k < f.depth; k += 16) {
		int o[4] = { offset[k + 2 * t], offset[k + 2 * t + 1], offset[k + 2 * t + 8],
			offset[k + 2 * t + 9] };
		uint32_t fa[4] = { pair_of(image + a + o[0], image + a + o[1]),
			pair_of(image + b + o[0], image + b + o[1]),
			pair_of(image + a + o[2], image + a + o[3]),
			pair_of(image + b + o[2], image + b + o[3]) };

#pragma unroll
		for (int n = 0; n < 2; n++) {
			uint32_t fb[4];

			load_matrices(fb, filters + (n * 16 + low + 8 * third) * pitch + k + 8 * second);
			mma_bf16(sum[2 * n], fa, fb[0], fb[1]);
			mma_bf16(sum[2 * n + 1], fa, fb[2], fb[3]);
		}
	}
}

static __device__ __forceinline__ void multiply_few(const struct few &f, const float *image, int a,
	int b, const uint16_t *offset, const float *filters, int pitch, float sum[4][4])
{
	int t = (int)threadIdx.x % 4;

	for (int k = 0; k < f.taps; k++) {
		float xa = image[a + offset[k]], xb = image[b + offset[k]];

#pragma unroll
		for (int n = 0; n < 4; n++) {
			const float *w = filters + (n * 8 + 2 * t) * pitch + k;

			sum[n][0] += xa * w[0];
			sum[n][1] += xa * w[pitch];
			sum[n][2] += xb * w[0];
			sum[n][3] += xb * w[pitch];
		}
	}
}

/* Pitches whose rows lie in different banks: of filters, and of gradients. */
template <class T> static __device__ __host__ __forceinline__ int filter_pitch(int depth)
{
	return sizeof(T) == 2 ? depth + 8 : depth + 1;
}

template <class T> __global__ void __launch_bounds__(FEW_THREADS) few_forward(const struct few f)
{
	int pitch = filter_pitch<T>(f.depth);
	T *filters = (T *)(void *)shared_memory();
	uint16_t *offset = (uint16_t *)(void *)(filters + FEW_K * pitch);
	T *image = (T *)(void *)(offset + f.depth);
	int n = (int)blockIdx.x / f.bands, p0 = (int)blockIdx.x % f.bands * f.band;
	int rows = f.pooled ? f.d.p / 2 * 2 : f.d.p, width = f.pooled ? f.d.q / 2 * 2 : f.d.q;
	int band = rows - p0 < f.band ? rows - p0 : f.band, count = band * width;
	int first = (n * rows + p0) * width, k0 = (int)blockIdx.y * FEW_K;
	int lane = (int)threadIdx.x % WARP;

	bring_filters(f, k0, pitch, filters);
	for (int e = (int)threadIdx.x; e < f.depth; e += FEW_THREADS)
		offset[e] = (uint16_t)tap_offset(f, e);
	bring_band(f, n, p0, image);
	__syncthreads();
	for (int m = (int)threadIdx.x / WARP * 16; m < count; m += FEW_WARPS * 16) {
		int a = band_pixel(f, m + lane / 4, count), b = band_pixel(f, m + lane / 4 + 8, count);
		float sum[4][4] = {};

		multiply_few(f, image, a, b, offset, filters, pitch, sum);
#pragma unroll
		for (int i = 0; i < 4; i++)
			store_after(&f.after, (T *)f.y, first + count, f.d.k, first + m, k0 + 8 * i,
				sum[i]);
	}
}

/* --- the weights' gradient --- */

/* 32 channels of the gradient of the band's outputs [pixels][pitch], zeros beyond the last. */
template <class T>
static __device__ void bring_gradients(
	const struct few &f, int n, int p0, int k0, int pixels, int pitch, T *to)
{
	int k = (int)threadIdx.x % FEW_K, channel = k0 + k;
	int bytes = 2 * ((f.d.k + 7) / 8), half_p = f.d.p / 2, half_q = f.d.q / 2;

	for (int m = (int)threadIdx.x / FEW_K; m < pixels; m += FEW_THREADS / FEW_K) {
		int q, p = divide(f.by_q, m, &q) + p0;
		T v = T();

		if (channel < f.d.k && p < f.d.p && p < p0 + f.band) {
			size_t at = ((size_t)n * (size_t)f.d.p + (size_t)p) * (size_t)f.d.q + (size_t)q;
			bool won = true;

			if (f.winners) {
				at = ((size_t)n * (size_t)half_p + (size_t)(p / 2)) * (size_t)half_q +
					(size_t)(q / 2);
				won = p / 2 < half_p && q / 2 < half_q &&
					(f.winners[at * (size_t)bytes + (size_t)(channel / 4)] >>
							(2 * (channel % 4)) &
						3) == p % 2 * 2 + q % 2;
			}
			if (won)
				v = ((const T *)f.dy)[at * (size_t)f.d.k + (size_t)channel];
		}
		to[m * pitch + k] = v;
	}
}

/* 32 channels times 32 taps over 16 pixels from m. */
static __device__ __forceinline__ void multiply_pixels(const bf16 *image, const bf16 *dy, int pitch,
	const uint16_t *pixel, const int tap[4], int m, float sum[2][4][4])
{
	int lane = (int)threadIdx.x % WARP, t = lane % 4, low = lane & 7, second = lane >> 3 & 1,
	    third = lane >> 4;
	const bf16 *at[4] = { image + pixel[m + 2 * t], image + pixel[m + 2 * t + 1],
		image + pixel[m + 2 * t + 8], image + pixel[m + 2 * t + 9] };
	uint32_t fa[2][4];

#pragma unroll
	for (int i = 0; i < 2; i++)
		load_matrices_across(fa[i], dy + (m + low + 8 * third) * pitch + i * 16 + 8 * second);
#pragma unroll
	for (int n = 0; n < 4; n++) {
		uint32_t b0 = pair_of(at[0] + tap[n], at[1] + tap[n]);
		uint32_t b1 = pair_of(at[2] + tap[n], at[3] + tap[n]);

		mma_bf16(sum[0][n], fa[0], b0, b1);
		mma_bf16(sum[1][n], fa[1], b0, b1);
	}
}

/* In f32 a lane has taps 2t and 2t + 1 of each eight. */
static __device__ __forceinline__ void multiply_pixels(const float *image, const float *dy,
	int pitch, const uint16_t *pixel, const int tap[8], int m, float sum[2][4][4])
{
	int g = (int)threadIdx.x % WARP / 4;

	for (int i = m; i < m + 16; i++) {
		const float *x = image + pixel[i], *d = dy + i * pitch + g;
		float a[4] = { d[0], d[8], d[16], d[24] };

#pragma unroll
		for (int n = 0; n < 4; n++) {
			float b0 = x[tap[2 * n]], b1 = x[tap[2 * n + 1]];

#pragma unroll
			for (int h = 0; h < 2; h++) {
				sum[h][n][0] += a[2 * h] * b0;
				sum[h][n][1] += a[2 * h] * b1;
				sum[h][n][2] += a[2 * h + 1] * b0;
				sum[h][n][3] += a[2 * h + 1] * b1;
			}
		}
	}
}

/* A lane's taps. */
template <class T>
static __device__ __forceinline__ void lane_taps(const struct few &f, int tap0, int tap[8])
{
	int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
	for (int n = 0; n < 4; n++) {
		if (sizeof(T) == 2) {
			tap[n] = tap_offset(f, tap0 + 8 * n + g);
			continue;
		}
		tap[2 * n] = tap_offset(f, tap0 + 8 * n + 2 * t);
		tap[2 * n + 1] = tap_offset(f, tap0 + 8 * n + 2 * t + 1);
	}
}

/*
 * The warps' sums [FEW_K][32 taps], added up in the warps' order, into the block's part. The sums
 * pass through shared memory half of the warps at a time.
 */
static __device__ void store_few(
	const struct few &f, int k0, int tap0, const float sum[2][4][4], float *share)
{
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	float *to = f.partial + blockIdx.x * f.partial_stride;
	const int size = FEW_K * FEW_K, each = size / FEW_THREADS;
	float total[each] = {};

	for (int half = 0; half < 2; half++) {
		__syncthreads();
		for (int e = 0; warp / (FEW_WARPS / 2) == half && e < 32; e++) {
			int row = e / 16 * 16 + e % 4 / 2 * 8 + g;
			int column = e / 4 % 4 * 8 + 2 * t + e % 2;

			share[warp % (FEW_WARPS / 2) * size + row * FEW_K + column] =
				sum[e / 16][e / 4 % 4][e % 4];
		}
		__syncthreads();
		for (int i = 0; i < each; i++)
			for (int w = 0; w < FEW_WARPS / 2; w++)
				total[i] += share[w * size + i * FEW_THREADS + (int)threadIdx.x];
	}
	for (int i = 0; i < each; i++) {
		int e = i * FEW_THREADS + (int)threadIdx.x, k = k0 + e / FEW_K, tap = tap0 + e % FEW_K;

		if (k < f.d.k && tap < f.taps)
			to[(size_t)k * (size_t)f.taps + (size_t)tap] = total[i];
	}
}

static __device__ void store_few_bias(const struct few &f, int k0, float bias, float *share)
{
	int k = (int)threadIdx.x;

	__syncthreads();
	share[threadIdx.x] = bias;
	__syncthreads();
	if (k >= FEW_K || k0 + k >= f.d.k)
		return;
	for (int i = k + FEW_K; i < FEW_THREADS; i += FEW_K)
		bias += share[i];
	f.partial[blockIdx.x * f.partial_stride + (size_t)f.d.k * (size_t)f.taps + (size_t)(k0 + k)] =
		bias;
}

/* Pixels of a band, rounded up to whole products. */
static __device__ __host__ __forceinline__ int band_pixels(const struct few &f)
{
	return (f.band * f.d.q + 15) / 16 * 16;
}

template <class T> __global__ void __launch_bounds__(FEW_THREADS) few_weights(const struct few f)
{
	const int pitch = FEW_K + 8;
	int pixels = band_pixels(f), k0 = (int)blockIdx.z * FEW_K, tap0 = (int)blockIdx.y * FEW_K;
	T *dy = (T *)(void *)shared_memory();
	uint16_t *pixel = (uint16_t *)(void *)(dy + pixels * pitch);
	T *image = (T *)(void *)(pixel + pixels);
	int items = f.d.n * f.bands;
	int from = (int)((long long)items * blockIdx.x / gridDim.x);
	int to = (int)((long long)items * (blockIdx.x + 1) / gridDim.x);
	float sum[2][4][4] = {}, bias = 0;
	int tap[8];

	lane_taps<T>(f, tap0, tap);
	for (int m = (int)threadIdx.x; m < pixels; m += FEW_THREADS) {
		int q, p = divide(f.by_q, m, &q);

		pixel[m] = (uint16_t)(m < f.band * f.d.q ? pixel_offset(f, p, q) : 0);
	}
	for (int item = from; item < to; item++) {
		int n = item / f.bands, p0 = item % f.bands * f.band;

		__syncthreads();
		bring_band(f, n, p0, image);
		bring_gradients(f, n, p0, k0, pixels, pitch, dy);
		__syncthreads();
		for (int m = (int)threadIdx.x / WARP * 16; m < pixels; m += FEW_WARPS * 16)
			multiply_pixels(image, dy, pitch, pixel, tap, m, sum);
		for (int m = (int)threadIdx.x / FEW_K; tap0 == 0 && m < pixels;
			m += FEW_THREADS / FEW_K)
			bias += to_float(dy[m * pitch + (int)threadIdx.x % FEW_K]);
	}
	store_few(f, k0, tap0, sum, (float *)(void *)shared_memory());
	if (tap0 == 0)
		store_few_bias(f, k0, bias, (float *)(void *)shared_memory());
}

/* --- bands --- */

static int few_ceil(int a, int b)
{
	return (a + b - 1) / b;
}

static size_t image_bytes(const struct few *f, size_t size)
{
	return (size_t)f->in_rows * (size_t)f->in_w * (size_t)f->d.c * size;
}

static size_t forward_bytes(const struct few *f, enum dtype dtype)
{
	size_t size = kernel_size(dtype);
	int pitch = size == 2 ? filter_pitch<bf16>(f->depth) : filter_pitch<float>(f->depth);

	return (size_t)(FEW_K * pitch) * size + (size_t)f->depth * 2 + image_bytes(f, size);
}

/* The sums of half of the warps pass through the same memory. */
static size_t weights_bytes(const struct few *f, enum dtype dtype)
{
	size_t size = kernel_size(dtype), pixels = (size_t)band_pixels(*f);
	size_t bytes = pixels * ((FEW_K + 8) * size + 2) + image_bytes(f, size);
	size_t sums = FEW_WARPS / 2 * FEW_K * FEW_K * sizeof(float);

	return bytes > sums ? bytes : sums;
}

static void set_band(struct few *f, int band)
{
	f->band = band;
	f->bands = few_ceil(f->pooled ? f->d.p / 2 * 2 : f->d.p, band);
	f->in_rows = (band - 1) * f->d.stride + f->d.r;
}

/*
 * Cut images into bands of about `want` rows, an even number, fewer where memory ends. Returns 0 or
 * -1 when two rows are too many.
 */
static int choose_band(struct few *f, enum dtype dtype, bool weights, int want)
{
	int band = want < 2 ? 2 : (want + 1) / 2 * 2;

	for (; band >= 2; band -= 2) {
		set_band(f, band);
		/* Offsets are 16 bits. */
		if ((size_t)f->in_rows * (size_t)f->in_w * (size_t)f->d.c <= UINT16_MAX &&
			(weights ? weights_bytes(f, dtype) : forward_bytes(f, dtype)) <= FEW_BYTES)
			return 0;
	}
	return -1;
}

static struct few few_of(const struct kernel_conv *d, int pooled)
{
	struct few f = {};

	f.d = *d;
	f.pooled = pooled;
	f.taps = d->c * d->r * d->r;
	f.depth = (f.taps + 15) / 16 * 16;
	f.in_w = d->w + 2 * d->pad;
	f.by_c = divisor_of(d->c);
	f.by_s = divisor_of(d->r);
	f.by_in_w = divisor_of(f.in_w);
	f.by_depth = divisor_of(f.depth);
	return f;
}

static int few_shape(const struct kernel_conv *d)
{
	return d->n >= 1 && d->c >= 1 && d->c <= IMAGE_CHANNELS_MAX && d->k >= 1 && d->k <= 128 &&
		d->c * d->r * d->r <= FEW_TAPS && (long long)d->n * d->p * d->q <= INT32_MAX;
}

/* Rows of a band such that the grid has two blocks for each multiprocessor, if it can. */
static int forward_band(const struct kernel_conv *d)
{
	int bands = few_ceil(2 * KERNEL_SM, d->n * few_ceil(d->k, FEW_K));
	int rows = few_ceil(d->p, bands);

	return rows > 16 ? 16 : rows;
}

/* The same band whatever splits are asked for, so that kernel_few_splits() counts the items. */
static int weights_band(const struct kernel_conv *d)
{
	int rows = 224 / d->q;

	return rows > d->p ? d->p : rows;
}

int kernel_few_fits(const struct kernel_conv *d, enum dtype dtype)
{
	struct few f = few_of(d, 0);

	return few_shape(d) && choose_band(&f, dtype, false, 2) == 0 &&
		choose_band(&f, dtype, true, 2) == 0;
}

cudaError_t kernel_few_forward(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *w, const struct kernel_after *after, void *y,
	cudaStream_t stream)
{
	struct few f = few_of(d, after->winners != NULL);
	dim3 grid;

	if (!kernel_few_fits(d, dtype) || after->rate > 0 || (f.pooled && (d->p < 2 || d->q < 2)))
		return cudaErrorInvalidValue;

	choose_band(&f, dtype, false, forward_band(d));
	f.from = *from;
	f.w = w;
	f.y = y;
	f.after = after_of(after);
	f.by_q = divisor_of(f.pooled ? d->q / 2 : d->q);
	grid = dim3((unsigned)(d->n * f.bands), (unsigned)few_ceil(d->k, FEW_K));
	return dtype == DTYPE_BF16
		? launch(few_forward<bf16>, grid, FEW_THREADS, forward_bytes(&f, dtype), stream, f)
		: launch(few_forward<float>, grid, FEW_THREADS, forward_bytes(&f, dtype), stream, f);
}

int kernel_few_splits(const struct kernel_conv *d, enum dtype dtype)
{
	struct few f = few_of(d, 0);
	int most = d->n <= 512 ? KERNEL_SM : 3 * KERNEL_SM, items;

	if (!few_shape(d) || choose_band(&f, dtype, true, weights_band(d)) != 0)
		return 1;
	items = d->n * f.bands;
	most /= few_ceil(d->k, FEW_K) * few_ceil(f.taps, FEW_K);
	return items < most ? items : most < 1 ? 1 : most;
}

cudaError_t kernel_few_backward_weights(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *dy, const uint8_t *winners, int splits,
	size_t stride, float *partial, cudaStream_t stream)
{
	struct few f = few_of(d, 0);
	dim3 grid((unsigned)splits, (unsigned)few_ceil(f.taps, FEW_K),
		(unsigned)few_ceil(d->k, FEW_K));

	if (!kernel_few_fits(d, dtype) || splits < 1)
		return cudaErrorInvalidValue;

	choose_band(&f, dtype, true, weights_band(d));
	f.from = *from;
	f.dy = dy;
	f.winners = winners;
	f.by_q = divisor_of(d->q);
	f.partial = partial;
	f.partial_stride = stride;
	return dtype == DTYPE_BF16
		? launch(few_weights<bf16>, grid, FEW_THREADS, weights_bytes(&f, dtype), stream, f)
		: launch(few_weights<float>, grid, FEW_THREADS, weights_bytes(&f, dtype), stream, f);
}
