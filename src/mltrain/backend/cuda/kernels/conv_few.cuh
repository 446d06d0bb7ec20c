/*
 * The convolution of images of few channels, straight from their bytes: a block takes a band of an
 * image's output rows, brings the part of the image that they read into shared memory as numbers
 * (with its border of zeros), and multiplies from there: a tap is an offset from its pixel, so
 * nothing is copied once for each tap.
 *
 *   conv_few.cu           (rows: pixels of the band, columns: 32 of k, depth: taps)
 *   conv_few_weights.cu   (rows: 32 of k, columns: 32 of the taps, depth: pixels of the band)
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/divide.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/source.cuh"
#include "backend/cuda/kernels/tile.cuh"

#define FEW_THREADS 256
#define FEW_WARPS   (FEW_THREADS / WARP)
#define FEW_K       32 /* of k and of taps that a block takes */
#define FEW_TAPS    128
#define FEW_ROWS    32          /* of a band, forward, at most */
#define FEW_NUMBERS 256         /* that a channel's bytes stand for */
#define FEW_BYTES   (48 * 1024) /* of shared memory */

struct few {
	struct kernel_conv d;
	struct kernel_source from;
	const void *w, *dy;
	void *y;
	const uint8_t *winners;
	struct after after;
	int pooled;
	int band, bands;   /* output rows at once, even when pooled; how many make an image */
	int taps, depth;   /* c * r * r, and that rounded up to 16 */
	int in_w, in_rows; /* of the part in shared memory, border included */
	int windows;       /* of the gradient of maxima: whole ones of eight channels each */
	struct divisor by_q, by_half_q, by_c, by_s, by_depth;
	float *partial;
	size_t partial_stride;
};

/* Bytes of shared memory that a band takes. */
typedef size_t few_bytes(const struct few *f, enum dtype dtype);

few_bytes few_weights_bytes;
/* Of those, what the image takes in numbers of so many bytes. */
size_t few_image_bytes(const struct few *f, size_t size);

/* A convolution that is not cut into bands yet; its by_q is the caller's. */
struct few few_of(const struct kernel_conv *d, int pooled);

/* Are its sizes those of such a convolution, whatever memory it takes? */
int few_shape(const struct kernel_conv *d);

/*
 * Cut images into bands of about `want` rows, an even number, fewer where memory ends. Returns 0 or
 * -1 when two rows are too many.
 */
int few_cut(struct few *f, few_bytes *bytes, enum dtype dtype, int want);

/* How many numbers bytes stand for, in all channels. */
static __device__ __host__ __forceinline__ int few_numbers(const struct few &f)
{
	return FEW_NUMBERS * f.d.c;
}

/* --- a band in shared memory --- */

/* The number of each byte [c][FEW_NUMBERS], so that a pixel costs no division. */
template <class T> static __device__ void bring_numbers(const struct few &f, T *to)
{
	for (int e = (int)threadIdx.x; e < few_numbers(f); e += FEW_THREADS)
		store_one(to + e, source_number(f.from, e / FEW_NUMBERS, e % FEW_NUMBERS));
}

/*
 * What output rows [p0, p0 + band) read of image n, with its border; numbers: bring_numbers()'s. A
 * warp has a row, a lane a number of it.
 */
template <class T>
static __device__ void bring_band(const struct few &f, int n, int p0, const T *numbers, T *to)
{
	struct source_image image = source_row(f.from, n);
	int width = f.in_w * f.d.c;

	for (int row = (int)threadIdx.x / WARP; row < f.in_rows; row += FEW_WARPS)
#pragma unroll 1
		for (int e = (int)threadIdx.x % WARP; e < width; e += WARP) {
			int c, i = row + p0 * f.d.stride - f.d.pad,
			       j = divide(f.by_c, e, &c) - f.d.pad;
			bool inside =
				(unsigned)i < (unsigned)f.d.h && (unsigned)j < (unsigned)f.d.w;
			int byte = inside ? source_byte(f.from, image, c, i, j) : -1;

			to[row * width + e] = byte < 0 ? T() : numbers[c * FEW_NUMBERS + byte];
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
