/*
 * The arithmetic of conv.cu: one slice of depth of a warp's tiles, for each dtype. S is a shape_of
 * (conv_operands.cuh); a and b point at the warp's rows and columns in shared memory.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"
#include "tensor/shape.h"

/* Which row of which of load_matrices()'s four a lane addresses: low, of 2 * third + second. */
struct matrix_row {
	int low, second, third;
};

static __device__ __forceinline__ struct matrix_row matrix_row_of_lane(void)
{
	int lane = (int)threadIdx.x % WARP;

	return { lane & 7, lane >> 3 & 1, lane >> 4 };
}

/* Sixteen depths from k on: a is in registers, b is brought there. */
template <class S>
static __device__ __forceinline__ void multiply_loaded(const uint32_t a[S::M][4], const bf16 *b,
	int k, const struct matrix_row &at, float sum[S::M][S::N][4])
{
	uint32_t fb[S::N / 2][4];

#pragma unroll
	for (int n = 0; n < S::N / 2; n++)
		if (S::B_ACROSS)
			load_matrices_across(fb[n],
				b + (k + at.low + 8 * at.second) * S::B_PITCH + n * 16 +
					8 * at.third);
		else
			load_matrices(fb[n],
				b + (n * 16 + at.low + 8 * at.third) * S::B_PITCH + k +
					8 * at.second);
#pragma unroll
	for (int m = 0; m < S::M; m++)
#pragma unroll
		for (int n = 0; n < S::N; n++)
			mma_bf16(sum[m][n], a[m], fb[n / 2][2 * (n % 2)],
				fb[n / 2][2 * (n % 2) + 1]);
}

template <class S>
static __device__ __forceinline__ void multiply_bf16(
	const bf16 *a, const bf16 *b, float sum[S::M][S::N][4])
{
	struct matrix_row at = matrix_row_of_lane();

#pragma unroll
	for (int k = 0; k < S::SLICE; k += 16) {
		uint32_t fa[S::M][4];

#pragma unroll
		for (int m = 0; m < S::M; m++)
			if (S::A_ACROSS)
				load_matrices_across(fa[m],
					a + (k + at.low + 8 * at.third) * S::A_PITCH + m * 16 +
						8 * at.second);
			else
				load_matrices(fa[m],
					a + (m * 16 + at.low + 8 * at.second) * S::A_PITCH + k +
						8 * at.third);
		multiply_loaded<S>(fa, b, k, at, sum);
	}
}

template <class S> static __device__ __forceinline__ float a_at(const float *a, int row, int k)
{
	return S::A_ACROSS ? a[k * S::A_PITCH + row] : a[row * S::A_PITCH + k];
}

template <class S> static __device__ __forceinline__ float b_at(const float *b, int k, int column)
{
	return S::B_ACROSS ? b[k * S::B_PITCH + column] : b[column * S::B_PITCH + k];
}

template <class S>
static __device__ __forceinline__ void multiply_tf32(
	const float *a, const float *b, float sum[S::M][S::N][4])
{
	int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;

#pragma unroll
	for (int k = 0; k < S::SLICE; k += 8) {
		uint32_t fa[S::M][4];

#pragma unroll
		for (int m = 0; m < S::M; m++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				fa[m][e] = round_tf32(
					a_at<S>(a, m * 16 + g + 8 * (e % 2), k + t + 4 * (e / 2)));
#pragma unroll
		for (int n = 0; n < S::N; n++) {
			uint32_t b0 = round_tf32(b_at<S>(b, k + t, n * 8 + g));
			uint32_t b1 = round_tf32(b_at<S>(b, k + t + 4, n * 8 + g));

#pragma unroll
			for (int m = 0; m < S::M; m++)
				mma_tf32(sum[m][n], fa[m], b0, b1);
		}
	}
}

template <class S>
static __device__ __forceinline__ void multiply_f32(
	const float *a, const float *b, float sum[S::M][S::N][4])
{
	int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;

#pragma unroll 4
	for (int k = 0; k < S::SLICE; k++) {
		float fa[S::M][2];

#pragma unroll
		for (int m = 0; m < S::M; m++) {
			fa[m][0] = a_at<S>(a, m * 16 + g, k);
			fa[m][1] = a_at<S>(a, m * 16 + g + 8, k);
		}
#pragma unroll
		for (int n = 0; n < S::N; n++) {
			float b0 = b_at<S>(b, k, n * 8 + 2 * t),
			      b1 = b_at<S>(b, k, n * 8 + 2 * t + 1);

#pragma unroll
			for (int m = 0; m < S::M; m++) {
				sum[m][n][0] += fa[m][0] * b0;
				sum[m][n][1] += fa[m][0] * b1;
				sum[m][n][2] += fa[m][1] * b0;
				sum[m][n][3] += fa[m][1] * b1;
			}
		}
	}
}

template <class S>
static __device__ __forceinline__ void multiply(
	const float *a, const float *b, float sum[S::M][S::N][4])
{
	if (S::MATH == DTYPE_TF32)
		multiply_tf32<S>(a, b, sum);
	else
		multiply_f32<S>(a, b, sum);
}

template <class S>
static __device__ __forceinline__ void multiply(
	const bf16 *a, const bf16 *b, float sum[S::M][S::N][4])
{
	multiply_bf16<S>(a, b, sum);
}
