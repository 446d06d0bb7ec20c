/* Convolutions of images of few channels (conv_few.cuh): their bands, and forward. */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/conv_few.cuh"

/* --- forward --- */

/* 32 of the filters [FEW_K][pitch], zeros beyond the last tap and the last filter. */
template <class T, bool POOLED>
static __device__ void bring_filters(const struct few &f, int k0, int pitch, T *to)
{
	for (int e = (int)threadIdx.x; e < FEW_K * f.depth; e += FEW_THREADS) {
		int tap, row = divide(f.by_depth, e, &tap);
		int k = k0 + (POOLED ? pooled_column<FEW_K / 8>(row) : row);

		to[row * pitch + tap] = tap < f.taps && k < f.d.k
			? ((const T *)f.w)[(size_t)k * (size_t)f.taps + (size_t)tap]
			: T();
	}
}

/*
 * The upper left taps of a lane's pixels of 16 * M from m on, two of each 16; a pixel beyond the
 * last reads the first. Pooled, they are those of one window.
 */
template <bool POOLED, int M>
static __device__ __forceinline__ void lane_pixels(
	const struct few &f, int m, int count, int at[M][2])
{
	int g = (int)threadIdx.x % WARP / 4, p, q;

	if constexpr (POOLED) {
		int window = m / 4 + g, right = f.d.stride * f.d.c, down = f.in_w * right;

		p = divide(f.by_q, 4 * window < count ? window : 0, &q);
		at[0][0] = pixel_offset(f, 2 * p, 2 * q);
		at[0][1] = at[0][0] + right;
		at[1][0] = at[0][0] + down;
		at[1][1] = at[0][1] + down;
	} else {
#pragma unroll
		for (int i = 0; i < 2 * M; i++) {
			int pixel = m + g + 8 * i;

			p = divide(f.by_q, pixel < count ? pixel : 0, &q);
			at[i / 2][i % 2] = pixel_offset(f, p, q);
		}
	}
}

/* 16 * M pixels (their upper left taps are lane_pixels()'s) times 32 filters. */
template <int M>
static __device__ __forceinline__ void multiply_few(const struct few &f, const bf16 *image,
	const int at[M][2], const uint16_t *offset, const bf16 *filters, int pitch,
	float sum[M][4][4])
{
	int lane = (int)threadIdx.x % WARP, t = lane % 4, low = lane & 7, second = lane >> 3 & 1,
	    third = lane >> 4;

	for (int k = 0; k < f.depth; k += 16) {
		int o[4] = { offset[k + 2 * t], offset[k + 2 * t + 1], offset[k + 2 * t + 8],
			offset[k + 2 * t + 9] };
		uint32_t fa[M][4], fb[2][4];

#pragma unroll
		for (int i = 0; i < 4 * M; i++) {
			const bf16 *from = image + at[i / 4][i % 2];

			fa[i / 4][i % 4] =
				pair_of(from + o[i % 4 / 2 * 2], from + o[i % 4 / 2 * 2 + 1]);
		}
#pragma unroll
		for (int n = 0; n < 2; n++)
			load_matrices(fb[n],
				filters + (n * 16 + low + 8 * third) * pitch + k + 8 * second);
#pragma unroll
		for (int i = 0; i < 4 * M; i++)
			mma_bf16(sum[i / 4][i % 4], fa[i / 4], fb[i % 4 / 2][i % 2 * 2],
				fb[i % 4 / 2][i % 2 * 2 + 1]);
	}
}

template <int M>
static __device__ __forceinline__ void multiply_few(const struct few &f, const float *image,
	const int at[M][2], const uint16_t *offset, const float *filters, int pitch,
	float sum[M][4][4])
{
	int t = (int)threadIdx.x % 4;

	for (int k = 0; k < f.taps; k++)
#pragma unroll
		for (int m = 0; m < M; m++) {
			float xa = image[at[m][0] + offset[k]], xb = image[at[m][1] + offset[k]];

#pragma unroll
			for (int n = 0; n < 4; n++) {
				const float *w = filters + (n * 8 + 2 * t) * pitch + k;

				sum[m][n][0] += xa * w[0];
				sum[m][n][1] += xa * w[pitch];
				sum[m][n][2] += xb * w[0];
				sum[m][n][3] += xb * w[pitch];
			}
		}
}

/* Pitches whose rows lie in different banks: of filters, and of gradients. */
template <class T> static __device__ __host__ __forceinline__ int filter_pitch(int depth)
{
	return sizeof(T) == 2 ? depth + 8 : depth + 1;
}

template <class T, bool POOLED>
__global__ void __launch_bounds__(FEW_THREADS, 3) few_forward(const struct few f)
{
	behind_previous();

	constexpr int M = POOLED ? 2 : 1, N = FEW_K / 8;
	int pitch = filter_pitch<T>(f.depth);
	T *filters = (T *)(void *)shared_memory();
	uint16_t *offset = (uint16_t *)(void *)(filters + FEW_K * pitch);
	T *numbers = (T *)(void *)(offset + f.depth), *image = numbers + few_numbers(f);
	int n = (int)blockIdx.x / f.bands, p0 = (int)blockIdx.x % f.bands * f.band;
	int rows = POOLED ? f.d.p / 2 * 2 : f.d.p, width = POOLED ? f.d.q / 2 * 2 : f.d.q;
	int band = rows - p0 < f.band ? rows - p0 : f.band, count = band * width;
	int first = (n * rows + p0) * width, k0 = (int)blockIdx.y * FEW_K;
	float bias[2 * N];

	bring_numbers(f, numbers);
	bring_filters<T, POOLED>(f, k0, pitch, filters);
	for (int e = (int)threadIdx.x; e < f.depth; e += FEW_THREADS)
		offset[e] = (uint16_t)tap_offset(f, e);
	__syncthreads();
	bring_band(f, n, p0, numbers, image);
	if (POOLED)
		pooled_biases<N>(&f.after, f.d.k, k0 + 2 * N * ((int)threadIdx.x % 4), bias);
	__syncthreads();
	for (int m = (int)threadIdx.x / WARP * 16 * M; m < count; m += FEW_WARPS * 16 * M) {
		float sum[M][N][4] = {};
		int at[M][2];

		lane_pixels<POOLED, M>(f, m, count, at);
		multiply_few<M>(f, image, at, offset, filters, pitch, sum);
		if constexpr (POOLED) {
			store_pooled<T, M, N>(&f.after, bias, (T *)f.y, first + count, f.d.k,
				first + m, k0, false, sum);
		} else {
#pragma unroll
			for (int i = 0; i < N; i++)
				store_after(&f.after, (T *)f.y, first + count, f.d.k, first + m,
					k0 + 8 * i, sum[0][i]);
		}
	}
}

/* --- bands --- */

size_t few_image_bytes(const struct few *f, size_t size)
{
	return (size_t)f->in_rows * (size_t)f->in_w * (size_t)f->d.c * size;
}

static size_t forward_bytes(const struct few *f, enum dtype dtype)
{
	size_t size = kernel_size(dtype);
	int pitch = size == 2 ? filter_pitch<bf16>(f->depth) : filter_pitch<float>(f->depth);

	return (size_t)(FEW_K * pitch + few_numbers(*f)) * size + (size_t)f->depth * 2 +
		few_image_bytes(f, size);
}

static void set_band(struct few *f, int band)
{
	f->band = band;
	f->bands = ceil_div(f->pooled ? f->d.p / 2 * 2 : f->d.p, band);
	f->in_rows = (band - 1) * f->d.stride + f->d.r;
}

int few_cut(struct few *f, few_bytes *bytes, enum dtype dtype, int want)
{
	int band = want < 2 ? 2 : (want + 1) / 2 * 2;

	for (; band >= 2; band -= 2) {
		set_band(f, band);
		/* Offsets are 16 bits. */
		if ((size_t)f->in_rows * (size_t)f->in_w * (size_t)f->d.c <= UINT16_MAX &&
			bytes(f, dtype) <= FEW_BYTES)
			return 0;
	}
	return -1;
}

struct few few_of(const struct kernel_conv *d, int pooled)
{
	struct few f = {};

	f.d = *d;
	f.pooled = pooled;
	f.taps = d->c * d->r * d->r;
	f.depth = (f.taps + 15) / 16 * 16;
	f.in_w = d->w + 2 * d->pad;
	f.by_c = divisor_of(d->c);
	f.by_s = divisor_of(d->r);
	f.by_depth = divisor_of(f.depth);
	return f;
}

int few_shape(const struct kernel_conv *d)
{
	return d->n >= 1 && d->c >= 1 && d->c <= IMAGE_CHANNELS_MAX && d->k >= 1 && d->k <= 128 &&
		d->c * d->r * d->r <= FEW_TAPS && (long long)d->n * d->p * d->q <= INT32_MAX;
}

/* Rows of a band such that the grid has two blocks for each multiprocessor, if it can; whole images
 * where there are so many, as each block brings the filters anew. */
static int forward_band(const struct kernel_conv *d)
{
	int bands = ceil_div(2 * KERNEL_SM, d->n * ceil_div(d->k, FEW_K));
	int rows = ceil_div(d->p, bands);

	return rows > FEW_ROWS ? FEW_ROWS : rows;
}

int kernel_few_fits(const struct kernel_conv *d, enum dtype dtype)
{
	struct few f = few_of(d, 0);

	return few_shape(d) && few_cut(&f, forward_bytes, dtype, 2) == 0 &&
		few_cut(&f, few_weights_bytes, dtype, 2) == 0;
}

cudaError_t kernel_few_forward(const struct kernel_conv *d, enum dtype dtype,
	const struct kernel_source *from, const void *w, const struct kernel_after *after, void *y,
	cudaStream_t stream)
{
	struct few f = few_of(d, after->winners != NULL);
	dim3 grid;

	if (!kernel_few_fits(d, dtype) || after->rate > 0 || (f.pooled && (d->p < 2 || d->q < 2)))
		return cudaErrorInvalidValue;

	few_cut(&f, forward_bytes, dtype, forward_band(d));
	f.from = *from;
	f.w = w;
	f.y = y;
	f.after = after_of(after);
	f.by_q = divisor_of(f.pooled ? d->q / 2 : d->q);
	grid = dim3((unsigned)(d->n * f.bands), (unsigned)ceil_div(d->k, FEW_K));
	return launch(f.pooled
			? (dtype == DTYPE_BF16 ? few_forward<bf16, true> : few_forward<float, true>)
			: (dtype == DTYPE_BF16 ? few_forward<bf16, false>
					       : few_forward<float, false>),
		grid, FEW_THREADS, forward_bytes(&f, dtype), stream, f);
}
