/* Convolutions of images of few channels (conv_few.cuh): the gradient of their weights and
 * biases. */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/conv_few.cuh"

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
			size_t at =
				((size_t)n * (size_t)f.d.p + (size_t)p) * (size_t)f.d.q + (size_t)q;
			bool won = true;

			if (f.winners) {
				at = ((size_t)n * (size_t)half_p + (size_t)(p / 2)) *
						(size_t)half_q +
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

/*
 * The same of the maxima's gradient, eight channels of a window a turn: its four pixels come of one
 * load each of gradients and winners, where bring_gradients() waits for both at every pixel.
 */
template <class T>
static __device__ void bring_windows(
	const struct few &f, int n, int p0, int k0, int pixels, int pitch, T *to)
{
	const int groups = FEW_K / GROUP;
	int half_p = f.d.p / 2, half_q = f.d.q / 2, turns = f.band / 2 * half_q * groups;

	for (int e = (int)threadIdx.x; e < turns; e += FEW_THREADS) {
		int q, p = divide(f.by_half_q, e / groups, &q), channel = k0 + e % groups * GROUP;
		T *at = to + 2 * (p * f.d.q + q) * pitch + e % groups * GROUP;
		struct group g = {};
		unsigned won = 0;

		if (channel < f.d.k && p0 / 2 + p < half_p) {
			size_t window = ((size_t)n * (size_t)half_p + (size_t)(p0 / 2 + p)) *
					(size_t)half_q +
				(size_t)q;

			won = ((const uint16_t *)(const void *)
					f.winners)[window * (size_t)(f.d.k / GROUP) +
				(size_t)(channel / GROUP)];
			g = load_group((const T *)f.dy + window * (size_t)f.d.k + (size_t)channel,
				GROUP, true);
		}
#pragma unroll
		for (int place = 0; place < 4; place++) {
			struct group one;

#pragma unroll
			for (int i = 0; i < GROUP; i++)
				one.v[i] = (int)(won >> (2 * i) & 3) == place ? g.v[i] : 0;
			store_group(at + (place / 2 * f.d.q + place % 2) * pitch, one, GROUP, true);
		}
	}
	for (int e = f.band * f.d.q * FEW_K + (int)threadIdx.x; e < pixels * FEW_K;
		e += FEW_THREADS)
		to[e / FEW_K * pitch + e % FEW_K] = T();
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
		load_matrices_across(
			fa[i], dy + (m + low + 8 * third) * pitch + i * 16 + 8 * second);
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

/* How many ones lie behind the image: as far as its pixels reach. */
static __device__ __host__ __forceinline__ int few_ones(const struct few &f)
{
	return ((f.band - 1) * f.in_w + f.d.q - 1) * f.d.stride * f.d.c + 1;
}

/* The tap behind the last reads ones: its gradient is that of the bias. */
static __device__ __forceinline__ int weight_tap(const struct few &f, int tap)
{
	return tap == f.taps ? f.in_rows * f.in_w * f.d.c : tap_offset(f, tap);
}

/* A lane's taps. */
template <class T>
static __device__ __forceinline__ void lane_taps(const struct few &f, int tap0, int tap[8])
{
	int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
	for (int n = 0; n < 4; n++) {
		if (sizeof(T) == 2) {
			tap[n] = weight_tap(f, tap0 + 8 * n + g);
			continue;
		}
		tap[2 * n] = weight_tap(f, tap0 + 8 * n + 2 * t);
		tap[2 * n + 1] = weight_tap(f, tap0 + 8 * n + 2 * t + 1);
	}
}

/*
 * The warps' sums [FEW_K][32 taps], added up in the warps' order, into the block's part. The sums
 * pass through shared memory half of the warps at a time.
 */
static __device__ void store_few(
	const struct few &f, int k0, int tap0, const float sum[2][4][4], float *share)
{
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, g = lane / 4,
	    t = lane % 4;
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
		int e = i * FEW_THREADS + (int)threadIdx.x, k = k0 + e / FEW_K,
		    tap = tap0 + e % FEW_K;

		if (k < f.d.k && tap < f.taps)
			to[(size_t)k * (size_t)f.taps + (size_t)tap] = total[i];
		else if (k < f.d.k && tap == f.taps)
			to[(size_t)f.d.k * (size_t)f.taps + (size_t)k] = total[i];
	}
}

/* Pixels of a band, rounded up to whole products. */
static __device__ __host__ __forceinline__ int band_pixels(const struct few &f)
{
	return (f.band * f.d.q + 15) / 16 * 16;
}

template <class T> __global__ void __launch_bounds__(FEW_THREADS, 3) few_weights(const struct few f)
{
	behind_previous();

	const int pitch = FEW_K + 8;
	int pixels = band_pixels(f), k0 = (int)blockIdx.z * FEW_K, tap0 = (int)blockIdx.y * FEW_K;
	T *dy = (T *)(void *)shared_memory();
	uint16_t *pixel = (uint16_t *)(void *)(dy + pixels * pitch);
	T *numbers = (T *)(void *)(pixel + pixels), *image = numbers + few_numbers(f);
	T *ones = image + f.in_rows * f.in_w * f.d.c;
	int items = f.d.n * f.bands;
	int from = (int)((long long)items * blockIdx.x / gridDim.x);
	int to = (int)((long long)items * (blockIdx.x + 1) / gridDim.x);
	float sum[2][4][4] = {};
	int tap[8];

	lane_taps<T>(f, tap0, tap);
	bring_numbers(f, numbers);
	for (int e = (int)threadIdx.x; e < few_ones(f); e += FEW_THREADS)
		store_one(ones + e, 1);
	for (int m = (int)threadIdx.x; m < pixels; m += FEW_THREADS) {
		int q, p = divide(f.by_q, m, &q);

		pixel[m] = (uint16_t)(m < f.band * f.d.q ? pixel_offset(f, p, q) : 0);
	}
	for (int item = from; item < to; item++) {
		int n = item / f.bands, p0 = item % f.bands * f.band;

		__syncthreads();
		bring_band(f, n, p0, numbers, image);
		if (f.windows)
			bring_windows(f, n, p0, k0, pixels, pitch, dy);
		else
			bring_gradients(f, n, p0, k0, pixels, pitch, dy);
		__syncthreads();
		for (int m = (int)threadIdx.x / WARP * 16; m < pixels; m += FEW_WARPS * 16)
			multiply_pixels(image, dy, pitch, pixel, tap, m, sum);
	}
	store_few(f, k0, tap0, sum, (float *)(void *)shared_memory());
}

/* The sums of half of the warps pass through the same memory. */
size_t few_weights_bytes(const struct few *f, enum dtype dtype)
{
	size_t size = kernel_size(dtype), pixels = (size_t)band_pixels(*f);
	size_t bytes = pixels * ((FEW_K + 8) * size + 2) + few_image_bytes(f, size) +
		(size_t)(few_numbers(*f) + few_ones(*f)) * size;
	size_t sums = FEW_WARPS / 2 * FEW_K * FEW_K * sizeof(float);

	return bytes > sums ? bytes : sums;
}

/* The same band whatever splits are asked for, so that kernel_few_splits() counts the items. */
static int weights_band(const struct kernel_conv *d)
{
	int rows = 224 / d->q;

	return rows > d->p ? d->p : rows;
}

int kernel_few_splits(const struct kernel_conv *d, enum dtype dtype)
{
	struct few f = few_of(d, 0);
	int most = d->n <= 512 ? KERNEL_SM : 3 * KERNEL_SM, items;

	if (!few_shape(d) || few_cut(&f, few_weights_bytes, dtype, weights_band(d)) != 0)
		return 1;
	items = d->n * f.bands;
	most /= ceil_div(d->k, FEW_K) * ceil_div(f.taps + 1, FEW_K);
	return items < most ? items : most < 1 ? 1 : most;
}

cudaError_t kernel_few_backward_weights(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *dy, const uint8_t *winners, int splits,
	size_t stride, float *partial, cudaStream_t stream)
{
	struct few f = few_of(d, 0);
	dim3 grid((unsigned)splits, (unsigned)ceil_div(f.taps + 1, FEW_K),
		(unsigned)ceil_div(d->k, FEW_K));

	if (!kernel_few_fits(d, dtype) || splits < 1)
		return cudaErrorInvalidValue;

	few_cut(&f, few_weights_bytes, dtype, weights_band(d));
	f.from = *from;
	f.dy = dy;
	f.winners = winners;
	f.windows = winners && d->k % GROUP == 0 && d->p % 2 == 0 && d->q % 2 == 0 &&
		group_aligned(dy) && (uintptr_t)winners % 2 == 0;
	f.by_q = divisor_of(d->q);
	f.by_half_q = divisor_of(f.windows ? d->q / 2 : 1);
	f.partial = partial;
	f.partial_stride = stride;
	return dtype == DTYPE_BF16 ? launch(few_weights<bf16>, grid, FEW_THREADS,
					     few_weights_bytes(&f, dtype), stream, f)
				   : launch(few_weights<float>, grid, FEW_THREADS,
					     few_weights_bytes(&f, dtype), stream, f);
}
