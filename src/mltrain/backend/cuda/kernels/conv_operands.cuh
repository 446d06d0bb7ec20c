/*
 * Where the operands of conv.cu's products come from, and how they lie in shared memory: the shape
 * of a tile and the functions that fill a slice of it.
 */
#pragma once

#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/divide.cuh"
#include "backend/cuda/kernels/tile.cuh"

#define THREADS 128
#define STAGES  3
#define CHUNK   16 /* bytes of one copy */
#define DEPTH   64 /* bytes of a slice along depth */

enum mode { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS };

/* A kernel's argument. */
struct product {
	const void *a, *b;
	void *to;
	int rows, columns, depth;
	int splits;
	/* The image that a pixel's taps are read from, and that of the pixels themselves. */
	int h, w, c, stride, pad, size;
	int pooled; /* rows are the pixels of 2x2 windows, one window after the other (S::POOLED) */
	struct divisor by_q, by_p, by_c, by_s;
	struct after after;
	struct kernel_before before;
	float *partial;
	uint32_t *tickets;
	size_t partial_stride;
	int bias;
};

/* A pixel among those of the product: image and upper left tap. */
struct pixel {
	size_t image; /* of the tapped array, in elements */
	int i, j;
	int valid;
};

template <enum mode MODE, bool POOLED>
static __device__ __forceinline__ struct pixel pixel_of(const struct product &p, int row, int limit)
{
	struct pixel at;
	int q, y, window = row & 3, n;

	at.valid = row < limit;
	n = divide(p.by_p, divide(p.by_q, POOLED ? row >> 2 : row, &q), &y);
	if (POOLED) {
		y = 2 * y + (window >> 1);
		q = 2 * q + (window & 1);
	}
	at.image = (size_t)n * (size_t)p.h * (size_t)p.w * (size_t)p.c;
	if (MODE == BACKWARD_DATA) {
		at.i = y + p.pad;
		at.j = q + p.pad;
	} else {
		at.i = y * p.stride - p.pad;
		at.j = q * p.stride - p.pad;
	}
	return at;
}

/* What pixel `at` meets at tap (r, s), channel c; NULL: nothing but zero. */
template <enum mode MODE, class T>
static __device__ __forceinline__ const T *tapped(
	const struct product &p, const T *from, const struct pixel &at, int r, int s, int c)
{
	int i = MODE == BACKWARD_DATA ? at.i - r : at.i + r;
	int j = MODE == BACKWARD_DATA ? at.j - s : at.j + s;

	if (MODE == BACKWARD_DATA && p.stride > 1) {
		if (i < 0 || j < 0 || i % p.stride || j % p.stride)
			return NULL;
		i /= p.stride;
		j /= p.stride;
	}
	if (!at.valid || (unsigned)i >= (unsigned)p.h || (unsigned)j >= (unsigned)p.w)
		return NULL;
	return from + at.image + (size_t)((i * p.w + j) * p.c + c);
}

/* A chunk into shared memory: one copy, or element by element where memory is not aligned. */
template <bool FAST, class T, class AT>
static __device__ __forceinline__ void fetch(T *to, const void *safe, AT at)
{
	if constexpr (FAST)
		copy_16(to, at(0), safe);
	else
		for (int e = 0; e < CHUNK / (int)sizeof(T); e++) {
			const T *from = at(e);

			to[e] = from ? *from : T();
		}
}

/* --- tiles --- */

template <class TYPE, enum dtype MATH_, enum mode MODE_, int ROWS_, int COLUMNS_, int WARP_ROWS_,
	bool FAST_, bool POOLED_ = false>
struct shape_of {
	typedef TYPE T;
	static constexpr bool FAST = FAST_, POOLED = POOLED_; /* POOLED: FORWARD alone */
	static constexpr enum dtype MATH = MATH_;
	static constexpr enum mode MODE = MODE_;
	static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_;
	static constexpr int V = CHUNK / sizeof(T), SLICE = DEPTH / sizeof(T);
	/* Warps one below the other and side by side, and each one's 16x8 tiles. */
	static constexpr int WARP_ROWS = WARP_ROWS_, WARP_COLUMNS = THREADS / WARP / WARP_ROWS;
	static constexpr int M = ROWS / WARP_ROWS / 16, N = COLUMNS / WARP_COLUMNS / 8;
	static constexpr bool A_ACROSS = MODE == BACKWARD_WEIGHTS, B_ACROSS = MODE != FORWARD;
	/* Pitches that let eight rows of a matrix lie in different banks. */
	static constexpr int A_PITCH = A_ACROSS ? ROWS + 8 : SLICE + V;
	static constexpr int B_PITCH = B_ACROSS ? COLUMNS + 8 : SLICE + V;
	static constexpr int A_SIZE = A_PITCH * (A_ACROSS ? SLICE : ROWS);
	static constexpr int B_SIZE = B_PITCH * (B_ACROSS ? SLICE : COLUMNS);
	static constexpr size_t BYTES = STAGES * (A_SIZE + B_SIZE) * sizeof(T);
	/* Threads that fill one depth of an operand across, and one row of an operand along; and
	 * how many chunks each thread fetches. */
	static constexpr int LANES = THREADS / SLICE, ALONG = DEPTH / CHUNK;
	static constexpr int A_EACH = ROWS * ALONG / THREADS, B_EACH = COLUMNS / V / LANES;
};

/* What a thread keeps about the operands' places between slices. */
template <class S> struct places {
	struct pixel row[S::A_ACROSS ? 1 : S::A_EACH];        /* of A along */
	int tap[S::MODE == BACKWARD_WEIGHTS ? S::B_EACH : 1]; /* r << 16 | s of B's columns */
	int channel[S::MODE == BACKWARD_WEIGHTS ? S::B_EACH : 1];
};

static __device__ __forceinline__ int decode_tap(const struct product &p, int place, int *c)
{
	int s, r = divide(p.by_s, divide(p.by_c, place, c), &s);

	return r << 16 | s;
}

template <class S>
static __device__ __forceinline__ void find_places(
	const struct product &p, int row0, int column0, struct places<S> *at)
{
	int thread = (int)threadIdx.x;

	if constexpr (!S::A_ACROSS)
#pragma unroll
		for (int i = 0; i < S::A_EACH; i++) {
			int row = thread / S::ALONG + i * (THREADS / S::ALONG);

			at->row[i] = pixel_of<S::MODE, S::POOLED>(
				p, row0 + (S::POOLED ? pooled_row(row) : row), p.rows);
		}
	if constexpr (S::MODE == BACKWARD_WEIGHTS && S::FAST)
#pragma unroll
		for (int i = 0; i < S::B_EACH; i++) {
			int column = column0 + (thread % S::LANES + i * S::LANES) * S::V;

			at->tap[i] = decode_tap(p, column, &at->channel[i]);
			if (column >= p.columns)
				at->channel[i] = -1;
		}
}

/* Operand A, along: pixels and their taps. */
template <class S>
static __device__ __forceinline__ void fill_taps(
	const struct product &p, const struct places<S> &at, int depth0, typename S::T *to)
{
	typedef typename S::T T;
	int thread = (int)threadIdx.x, depth = depth0 + thread % S::ALONG * S::V, c = 0;
	int tap = S::FAST ? decode_tap(p, depth, &c) : 0;

#pragma unroll
	for (int i = 0; i < S::A_EACH; i++) {
		int row = thread / S::ALONG + i * (THREADS / S::ALONG);

		fetch<S::FAST>(to + row * S::A_PITCH + thread % S::ALONG * S::V, p.a, [&](int e) {
			int channel = c, t = tap;

			if (!S::FAST)
				t = decode_tap(p, depth + e, &channel);
			return depth + e < p.depth ? tapped<S::MODE>(p, (const T *)p.a, at.row[i],
							     t >> 16, t & 0xffff, channel)
						   : NULL;
		});
	}
}

/* Operand B, along: rows of weights [columns][depth]. */
template <class S>
static __device__ __forceinline__ void fill_weights(
	const struct product &p, int column0, int depth0, typename S::T *to)
{
	typedef typename S::T T;
	int thread = (int)threadIdx.x, depth = depth0 + thread % S::ALONG * S::V;

#pragma unroll
	for (int i = 0; i < S::COLUMNS * S::ALONG / THREADS; i++) {
		int row = thread / S::ALONG + i * (THREADS / S::ALONG);
		int column = column0 + (S::POOLED ? pooled_column<S::N>(row) : row);
		const T *from = (const T *)p.b + (size_t)column * (size_t)p.depth + depth;

		fetch<S::FAST>(to + row * S::B_PITCH + thread % S::ALONG * S::V, p.b, [&](int e) {
			return column < p.columns && depth + e < p.depth ? from + e : NULL;
		});
	}
}

/* Operand B, across: the weights that a depth (r, s, k) has for each channel of x. */
template <class S>
static __device__ __forceinline__ void fill_weights_across(
	const struct product &p, int column0, int depth0, typename S::T *to)
{
	typedef typename S::T T;
	int thread = (int)threadIdx.x, row = thread / S::LANES, depth = depth0 + row, k;
	int tap = decode_tap(p, depth, &k);
	const T *from = (const T *)p.b +
		((size_t)(k * p.size + (tap >> 16)) * (size_t)p.size + (size_t)(tap & 0xffff)) *
			(size_t)p.columns;

#pragma unroll
	for (int i = 0; i < S::B_EACH; i++) {
		int column = (thread % S::LANES + i * S::LANES) * S::V;

		fetch<S::FAST>(to + row * S::B_PITCH + column, p.b, [&](int e) {
			return depth < p.depth && column0 + column + e < p.columns
				? from + column0 + column + e
				: NULL;
		});
	}
}

/* Operand A, across: the gradients of a pixel's outputs. */
template <class S>
static __device__ __forceinline__ void fill_gradients(
	const struct product &p, int row0, int depth0, typename S::T *to)
{
	typedef typename S::T T;
	int thread = (int)threadIdx.x, row = thread / S::LANES, depth = depth0 + row;
	const T *from = (const T *)p.a + (size_t)depth * (size_t)p.rows;

#pragma unroll
	for (int i = 0; i < S::ROWS / S::V / S::LANES; i++) {
		int k = (thread % S::LANES + i * S::LANES) * S::V;

		fetch<S::FAST>(to + row * S::A_PITCH + k, p.a, [&](int e) {
			return depth < p.depth && row0 + k + e < p.rows ? from + row0 + k + e
									: NULL;
		});
	}
}

/* Operand B, across: the taps of a pixel. */
template <class S>
static __device__ __forceinline__ void fill_taps_across(const struct product &p,
	const struct places<S> &at, int column0, int depth0, typename S::T *to)
{
	typedef typename S::T T;
	int thread = (int)threadIdx.x, row = thread / S::LANES;
	struct pixel pixel = pixel_of<S::MODE, false>(p, depth0 + row, p.depth);

#pragma unroll
	for (int i = 0; i < S::B_EACH; i++) {
		int column = (thread % S::LANES + i * S::LANES) * S::V;

		fetch<S::FAST>(to + row * S::B_PITCH + column, p.b, [&](int e) {
			int c = at.channel[S::FAST ? i : 0], tap = at.tap[S::FAST ? i : 0];

			if (!S::FAST) {
				tap = decode_tap(p, column0 + column + e, &c);
				if (column0 + column + e >= p.columns)
					c = -1;
			}
			return c >= 0 ? tapped<S::MODE>(p, (const T *)p.b, pixel, tap >> 16,
						tap & 0xffff, c)
				      : NULL;
		});
	}
}

template <class S>
static __device__ __forceinline__ void fill(const struct product &p, const struct places<S> &at,
	int row0, int column0, int slice, typename S::T *a, typename S::T *b)
{
	int depth = slice * S::SLICE;

	if constexpr (S::MODE == BACKWARD_WEIGHTS) {
		fill_gradients<S>(p, row0, depth, a);
		fill_taps_across<S>(p, at, column0, depth, b);
	} else {
		fill_taps<S>(p, at, depth, a);
		if constexpr (S::MODE == FORWARD)
			fill_weights<S>(p, column0, depth, b);
		else
			fill_weights_across<S>(p, column0, depth, b);
	}
}

/* 2x2 maxima of a warp's tiles. */
template <class S>
static __device__ __forceinline__ void store_tiles_pooled(
	const struct product &p, int row, int column, bool flip, const float sum[S::M][S::N][4])
{
	float bias[2 * S::N];

	pooled_biases<S::N>(&p.after, p.columns, column + 2 * S::N * ((int)threadIdx.x % 4), bias);
	store_pooled<typename S::T, S::M, S::N>(
		&p.after, bias, (typename S::T *)p.to, p.rows, p.columns, row, column, flip, sum);
}
