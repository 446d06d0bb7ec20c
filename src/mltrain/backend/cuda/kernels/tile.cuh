/*
 * What a warp holds of a product: tiles of 16 rows and 8 columns as mma.sync lays them out
 * (device.cuh), and what happens to them on the way to memory.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/group.cuh"
#include "backend/cuda/kernels/kernels.h"
#include "tensor/philox.h"

/* Two neighbours into memory, the second only when it is within the row. */
static __device__ __forceinline__ void store_pair(
	float *to, float first, float second, int both, int aligned)
{
	if (both && aligned) {
		*(float2 *)to = make_float2(first, second);
		return;
	}
	to[0] = first;
	if (both)
		to[1] = second;
}

static __device__ __forceinline__ void store_pair(
	bf16 *to, float first, float second, int both, int aligned)
{
	uint32_t pair = pack_bf16(first, second);

	if (both && aligned) {
		*(uint32_t *)to = pair;
		return;
	}
	to[0].bits = (uint16_t)pair;
	if (both)
		to[1].bits = (uint16_t)(pair >> 16);
}

/* struct kernel_after with what a kernel wants to know beside it. */
struct after {
	struct kernel_after is;
	uint32_t threshold; /* dropout: words below it are dropped */
	float keep;         /* and the others grow by this */
};

static inline struct after after_of(const struct kernel_after *is)
{
	struct after a = { *is, philox_threshold(is->rate), 1 / (1 - is->rate) };

	return a;
}

/* Dropout of one unit of a row; a call, since it is long and most stores need none. */
static __device__ OUT_OF_LINE float drop_unit(
	const struct after *a, const struct kernel_step *step, uint64_t element, float x)
{
	struct philox p =
		philox_dropout(step->seed, step->number, a->is.layer, (uint32_t)(element >> 2));
	uint32_t place = (uint32_t)element & 3;
	uint32_t word =
		place < 2 ? (place ? p.word[1] : p.word[0]) : (place == 2 ? p.word[2] : p.word[3]);

	return word < a->threshold ? 0 : x * a->keep;
}

/* And of units column and column + 1. */
static __device__ __forceinline__ void drop_pair(
	const struct after *a, int columns, int row, int column, float v[2])
{
	const struct kernel_step *step = a->is.step + (a->is.now ? *a->is.now : 0);
	uint64_t element = (a->is.first + (uint64_t)row) * (uint64_t)columns + (uint64_t)column;

	v[0] = drop_unit(a, step, element, v[0]);
	v[1] = drop_unit(a, step, element + 1, v[1]);
}

/*
 * 2x2 maxima. A thread finds a window's four pixels among its own sums, and neighbouring channels
 * in a line of its own, where rows and columns of a product are handed out for that: of 32 rows
 * mma.sync gives a thread rows g, g + 8, g + 16 and g + 24, which are the places of window g, and
 * columns 2t and 2t + 1 of each of N tiles, which are channels 2N * t and on. So nothing passes
 * between threads.
 */

/* Which of the pixels, taken window by window, a row of the product has. */
static __device__ __forceinline__ int pooled_row(int row)
{
	return (row & ~31) + 4 * (row & 7) + (row >> 3 & 3);
}

/* And which channel a column has; a warp has N tiles of eight columns. */
template <int N> static __device__ __forceinline__ int pooled_column(int column)
{
	return column / (8 * N) * (8 * N) + 2 * N * (column / 2 % 4) + 2 * (column / 8 % N) +
		column % 2;
}

/*
 * The greatest of a window's pixels, as max_nan() has it. Its place, the first of equals', is added
 * to places. flip: s has the two pixels of each line in the other order.
 */
static __device__ __forceinline__ float greatest_of_window(
	const float s[4], bool flip, int shift, uint32_t *places)
{
	float upper = max_nan(s[0], s[1]), lower = max_nan(s[2], s[3]);
	bool below = lower > upper;
	float first = below ? s[2] : s[0], second = below ? s[3] : s[1];

	if (flip ? first > second : second > first)
		*places |= 1u << shift;
	if (below)
		*places |= 2u << shift;
	return max_nan(upper, lower);
}

/* The biases of a thread's 2N channels from k on; zeros where there is none. */
template <int N>
static __device__ __forceinline__ void pooled_biases(
	const struct after *a, int columns, int k, float bias[2 * N])
{
#pragma unroll
	for (int i = 0; i < 2 * N; i++)
		bias[i] = a->is.bias && k + i < columns ? a->is.bias[k + i] : 0;
}

/* A thread's 2N neighbours of a pixel, of which there are `count`. */
template <class T, int N>
static __device__ __forceinline__ void store_channels(
	T *to, const float v[2 * N], int count, bool aligned)
{
	if constexpr (N % 4 == 0) {
#pragma unroll
		for (int i = 0; i < 2 * N; i += GROUP) {
			struct group g;

#pragma unroll
			for (int k = 0; k < GROUP; k++)
				g.v[k] = v[i + k];
			store_group(to + i, g, count - i, aligned);
		}
	} else {
#pragma unroll
		for (int i = 0; i < 2 * N; i += 2)
			if (i < count)
				store_pair(to + i, v[i], v[i + 1], i + 1 < count, aligned);
	}
}

/* Their places, 2 bits each, zeros beyond the last; a pixel has bytes for whole eights of channels.
 */
template <int N>
static __device__ __forceinline__ void store_places(
	uint8_t *to, uint32_t places, int count, int bytes)
{
	if (count < 2 * N)
		places &= count > 0 ? (1u << (2 * count)) - 1 : 0;
#pragma unroll
	for (int i = 0; i < N / 2; i += N < 4 ? 1 : 2) {
		if (i >= bytes)
			continue;
		if (N < 4)
			to[i] = (uint8_t)places;
		else
			*(uint16_t *)(to + i) = (uint16_t)(places >> (8 * i));
	}
}

/*
 * Of M x N tiles the 2x2 maxima, with bias and ReLU behind, to y [rows / 4][columns] and winners.
 * row and column are the first tile's; bias is pooled_biases()'s.
 */
template <class T, int M, int N>
static __device__ __forceinline__ void store_pooled(const struct after *a, const float bias[2 * N],
	T *y, int rows, int columns, int row, int column, bool flip, const float sum[M][N][4])
{
	int lane = (int)threadIdx.x % WARP, k = column + 2 * N * (lane % 4);
	int bytes = 2 * ((columns + 7) / 8);
	bool aligned = columns % GROUP == 0 && (uintptr_t)y % 16 == 0;
	float least = a->is.relu ? 0 : -INFINITY;

#pragma unroll
	for (int m = 0; m < M; m += 2) {
		int window = row / 4 + 4 * m + lane / 4;
		uint32_t places = 0;
		float v[2 * N];

#pragma unroll
		for (int i = 0; i < 2 * N; i++) {
			const float s[4] = { sum[m][i / 2][i % 2], sum[m][i / 2][2 + i % 2],
				sum[m + 1][i / 2][i % 2], sum[m + 1][i / 2][2 + i % 2] };

			v[i] = max_nan(
				greatest_of_window(s, flip, 2 * i, &places) + bias[i], least);
		}
		if (4 * window >= rows)
			continue;
		store_channels<T, N>(
			y + (size_t)window * (size_t)columns + k, v, columns - k, aligned);
		store_places<N>(a->is.winners + (size_t)window * (size_t)bytes + k / 4, places,
			columns - k, bytes - k / 4);
	}
}

/*
 * Store the 16x8 tile d at (row, column) of y [rows][columns] after what `a` says, but for maxima.
 */
template <class T>
static __device__ __forceinline__ void store_after(
	const struct after *a, T *y, int rows, int columns, int row, int column, const float d[4])
{
	int g = (int)threadIdx.x % WARP / 4, c = column + 2 * ((int)threadIdx.x % 4);
	float v[4] = { d[0], d[1], d[2], d[3] };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (a->is.bias && c + i % 2 < columns)
			v[i] += a->is.bias[c + i % 2];
		if (a->is.relu)
			v[i] = v[i] < 0 ? 0 : v[i];
	}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		int at = row + g + 8 * half;
		size_t to = (size_t)at * (size_t)columns + (size_t)c;

		if (at >= rows || c >= columns)
			continue;
		if (a->is.rate > 0)
			drop_pair(a, columns, at, c, v + 2 * half);
		if (a->is.as_float)
			store_pair((float *)(void *)y + to, v[2 * half], v[2 * half + 1],
				c + 1 < columns, columns % 2 == 0);
		else
			store_pair(y + to, v[2 * half], v[2 * half + 1], c + 1 < columns,
				columns % 2 == 0);
	}
}

/* An input's gradient on its way to memory. */
template <class T>
static __device__ __forceinline__ float finish_before(
	const struct kernel_before *b, const T *dx, size_t at, float v)
{
	if (b->accumulate)
		v += to_float(dx[at]);
	if (b->relu_of && !(to_float(((const T *)b->relu_of)[at]) > 0))
		return 0;
	return b->scale != 0 ? v * b->scale : v;
}

template <class T>
static __device__ __forceinline__ void store_before(const struct kernel_before *b, T *dx, int rows,
	int columns, int row, int column, const float d[4])
{
	row += (int)threadIdx.x % WARP / 4;
	column += 2 * ((int)threadIdx.x % 4);
	for (int half = 0; half < 2; half++) {
		size_t at = (size_t)(row + 8 * half) * (size_t)columns + (size_t)column;
		int both = column + 1 < columns;

		if (row + 8 * half >= rows || column >= columns)
			continue;
		store_pair(dx + at, finish_before(b, dx, at, d[2 * half]),
			both ? finish_before(b, dx, at + 1, d[2 * half + 1]) : 0, both,
			columns % 2 == 0);
	}
}
