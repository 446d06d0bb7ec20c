/*
 * What a warp holds of a product: tiles of 16 rows and 8 columns as mma.sync lays them out
 * (device.cuh), and what happens to them on the way to memory.
 */
#ifndef MLT_BACKEND_CUDA_KERNELS_TILE_CUH
#define MLT_BACKEND_CUDA_KERNELS_TILE_CUH

#include "backend/cuda/kernels/device.cuh"
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

/* The greater of two candidates of a window; the earlier of equals. */
static __device__ __forceinline__ void take_greater(
	float *best, int *place, float other, int other_place)
{
	if (other > *best || (other == *best && other_place < *place)) {
		*best = other;
		*place = other_place;
	}
}

/*
 * Of four numbers v in each of four lanes (those that differ in bits 2 and 3: the places of a
 * window), lane r of them gets the greatest of the four v[r], and where it was: a 4x4 transposition
 * in two exchanges.
 */
static __device__ __forceinline__ float greatest_of_window(const float v[4], int *place)
{
	int r = (int)threadIdx.x >> 2 & 3;
	bool odd = r & 1, high = r & 2;
	float mine[2] = { odd ? v[1] : v[0], odd ? v[3] : v[2] }, near[2];
	float best, other;

	near[0] = __shfl_xor_sync(EVERYONE, odd ? v[0] : v[1], 4);
	near[1] = __shfl_xor_sync(EVERYONE, odd ? v[2] : v[3], 4);
	best = high ? mine[1] : mine[0];
	*place = r;
	take_greater(&best, place, high ? near[1] : near[0], r ^ 1);
	other = __shfl_xor_sync(EVERYONE, high ? mine[0] : mine[1], 8);
	take_greater(&best, place, other, r ^ 2);
	other = __shfl_xor_sync(EVERYONE, high ? near[0] : near[1], 8);
	take_greater(&best, place, other, r ^ 3);
	return best;
}

/*
 * 2x2 maxima of a 16x8 tile, rows 4i .. 4i + 3 being a window; v as mma.sync lays it out. Every
 * lane of the warp calls it.
 */
template <class T>
static __device__ __forceinline__ void store_pooled(
	const struct after *a, T *y, int rows, int columns, int row, int column, const float v[4])
{
	int lane = (int)threadIdx.x % WARP, r = lane >> 2 & 3, t = lane % 4, place;
	int c = column + 2 * t + r % 2, window = (row + 8 * (r / 2)) / 4 + (lane >> 4);
	float best = greatest_of_window(v, &place), next = __shfl_xor_sync(EVERYONE, best, 4);
	uint32_t bits = c < columns ? (uint32_t)place << (4 * t + 2 * (r % 2)) : 0;

	bits |= __shfl_xor_sync(EVERYONE, bits, 4);
	bits |= __shfl_xor_sync(EVERYONE, bits, 1);
	bits |= __shfl_xor_sync(EVERYONE, bits, 2);
	if (r % 2 || 4 * window >= rows || c >= columns)
		return;

	store_pair(y + (size_t)window * (size_t)columns + c, best, next, c + 1 < columns,
		columns % 2 == 0);
	if (t == 0)
		*(uint16_t *)(a->is.winners + (size_t)window * (size_t)(2 * ((columns + 7) / 8)) +
			column / 4) = (uint16_t)bits;
}

/*
 * Store the 16x8 tile d at (row, column) of y [rows][columns] after what `a` says. Every lane of
 * the warp calls it.
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
	if (a->is.winners) {
		store_pooled(a, y, rows, columns, row, column, v);
		return;
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

#endif
