/*
 * Convolutions of stride 1 in bf16, forward and backward_data: a block brings the part of the
 * images that all taps of its rows read into shared memory once, and ldmatrix reads each tap from
 * there, at an offset. conv.cu writes every tap into shared memory anew, which takes longer than
 * the products.
 *
 * The images lie in shared memory as one column of padded images: line v = n * lines + y, where an
 * image has `lines` = its output lines + size - 1. Output line p meets tap r at line p + r (the
 * taps of backward_data count backwards). Weights pass by in slices of one tap and 32 channels.
 */
#include "backend/cuda/kernels/conv_near.cuh"

#include "backend/cuda/kernels/conv_math.cuh"

#define NEAR_BYTES (96 * 1024) /* of shared memory: two blocks on a multiprocessor of sm_90 */

struct near {
	struct product p;
	int before;       /* lines and columns of border before an image */
	int pixel, line;  /* pitches in elements */
	int lines, width; /* of a padded image */
	int area;         /* lines that a block can hold */
	struct divisor by_chunks, by_width, by_lines, by_slices;
};

/* --- the images' part --- */

/* The padded line of a row's first tap, and its column. */
template <bool POOLED>
static __device__ __forceinline__ int near_line(const struct near &f, int row, int *column)
{
	int y, q, window = row & 3, n;

	n = divide(f.p.by_p, divide(f.p.by_q, POOLED ? row >> 2 : row, &q), &y);
	if (POOLED) {
		y = 2 * y + (window >> 1);
		q = 2 * q + (window & 1);
	}
	*column = q;
	return n * f.lines + y;
}

/* Lines [first, first + count) into shared memory. */
static __device__ __forceinline__ void bring_lines(
	const struct near &f, int first, int count, bf16 *to)
{
	int chunks = count * f.width * f.by_chunks.by;

	for (int e = (int)threadIdx.x; e < chunks; e += THREADS) {
		int chunk, column, y;
		int v = divide(f.by_width, divide(f.by_chunks, e, &chunk), &column);
		int n = divide(f.by_lines, first + v, &y);
		int i = y - f.before, j = column - f.before;
		size_t from =
			(((size_t)n * (size_t)f.p.h + (size_t)i) * (size_t)f.p.w + (size_t)j) *
				(size_t)f.p.c +
			(size_t)(chunk * 8);
		bool inside = (unsigned)i < (unsigned)f.p.h && (unsigned)j < (unsigned)f.p.w;

		copy_16(to + v * f.line + column * f.pixel + chunk * 8,
			inside ? (const bf16 *)f.p.a + from : NULL, f.p.a);
	}
}

/* Where a slice's tap and channels lie from a row's first tap. */
template <enum mode MODE>
static __device__ __forceinline__ int slice_offset(const struct near &f, int slice)
{
	int chunk, s, r = divide(f.p.by_s, divide(f.by_slices, slice, &chunk), &s);

	if (MODE == BACKWARD_DATA) {
		r = f.p.size - 1 - r;
		s = f.p.size - 1 - s;
	}
	return r * f.line + s * f.pixel + chunk * 32;
}

/* --- the products --- */

/* One slice of a warp's tiles; at: this lane's row of each 16, in the images' part. */
template <class S>
static __device__ __forceinline__ void multiply_near(
	const bf16 *area, const int at[S::M], int offset, const bf16 *b, float sum[S::M][S::N][4])
{
	struct matrix_row row = matrix_row_of_lane();

#pragma unroll
	for (int k = 0; k < S::SLICE; k += 16) {
		uint32_t fa[S::M][4];

#pragma unroll
		for (int m = 0; m < S::M; m++)
			load_matrices(fa[m], area + at[m] + offset + k);
		multiply_loaded<S>(fa, b, k, row, sum);
	}
}

template <class S>
static __device__ __forceinline__ void fill_slice(
	const struct near &f, int column0, int slice, bf16 *to)
{
	if constexpr (S::MODE == FORWARD)
		fill_weights<S>(f.p, column0, slice * S::SLICE, to);
	else
		fill_weights_across<S>(f.p, column0, slice * S::SLICE, to);
}

template <class S>
static __device__ __forceinline__ void store_near(
	const struct product &p, int row, int column, float sum[S::M][S::N][4])
{
	if constexpr (S::POOLED) {
		store_tiles_pooled<S>(p, row, column, (int)threadIdx.x % WARP >= WARP / 2, sum);
	} else {
#pragma unroll
		for (int m = 0; m < S::M; m++)
#pragma unroll
			for (int n = 0; n < S::N; n++)
				if constexpr (S::MODE == FORWARD)
					store_after(&p.after, (bf16 *)p.to, p.rows, p.columns,
						row + 16 * m, column + 8 * n, sum[m][n]);
				else
					store_before(&p.before, (bf16 *)p.to, p.rows, p.columns,
						row + 16 * m, column + 8 * n, sum[m][n]);
	}
}

template <class S> __global__ void __launch_bounds__(THREADS, 2) conv_near_tile(const struct near f)
{
	behind_previous();

	bf16 *b = (bf16 *)(void *)shared_memory(), *area = b + STAGES * S::B_SIZE;
	int row0 = (int)blockIdx.x * S::ROWS, column0 = (int)blockIdx.y * S::COLUMNS;
	int end = row0 + S::ROWS < f.p.rows ? row0 + S::ROWS : f.p.rows;
	int lane = (int)threadIdx.x % WARP, warp_row = (int)threadIdx.x / WARP * (16 * S::M);
	int slices = f.p.depth / S::SLICE, column, first = near_line<S::POOLED>(f, row0, &column);
	int last = near_line<S::POOLED>(f, end - 1, &column) + f.p.size - 1;
	float sum[S::M][S::N][4] = {};
	int at[S::M];

#pragma unroll
	for (int m = 0; m < S::M; m++) {
		int row = warp_row + 16 * m + lane % 16, line;

		/* A line's two pixels change places in every other four windows: eight pixels that
		 * ldmatrix reads at once then lie in different banks. */
		row = row0 + (S::POOLED ? pooled_row(row) ^ (lane >> 2 & 1) : row);
		line = near_line<S::POOLED>(f, row < end ? row : row0, &column);

		at[m] = (line - first) * f.line + column * f.pixel + lane / 16 * 8;
	}
	bring_lines(f, first, last - first + 1, area);
	for (int i = 0; i < STAGES - 1; i++) {
		if (i < slices)
			fill_slice<S>(f, column0, i, b + i * S::B_SIZE);
		copy_commit();
	}
	for (int slice = 0, stage = 0; slice < slices; slice++) {
		int ahead = slice + STAGES - 1, free = (stage + STAGES - 1) % STAGES;

		copy_wait<STAGES - 2>();
		__syncthreads();
		if (ahead < slices)
			fill_slice<S>(f, column0, ahead, b + free * S::B_SIZE);
		copy_commit();
		multiply_near<S>(
			area, at, slice_offset<S::MODE>(f, slice), b + stage * S::B_SIZE, sum);
		stage = (stage + 1) % STAGES;
	}
	copy_wait<0>();
	store_near<S>(f.p, row0 + warp_row, column0, sum);
}

/* --- shapes --- */

static int near_columns(const struct product *p)
{
	return p->columns > 32 ? 64 : 32;
}

static struct near near_of(const struct product *p, enum mode mode, int rows)
{
	int scale = p->pooled ? 2 : 1, out_lines = scale * p->by_p.by,
	    out_width = scale * p->by_q.by;
	int lines = scale * (ceil_div(rows / (scale * scale), p->by_q.by) + 1);
	struct near f = {};

	f.p = *p;
	f.before = mode == FORWARD ? p->pad : p->size - 1 - p->pad;
	f.lines = out_lines + p->size - 1;
	f.width = out_width + p->size - 1;
	/* Eight neighbours lie in different banks; and of eight windows the pixels that are read at
	 * once, also where a line of windows ends among them. */
	f.pixel = p->c + 8;
	f.line = f.width * f.pixel;
	while (p->pooled && (f.line - p->by_q.by * f.pixel) % 32)
		f.line += 8;
	/* Each image that begins on the way brings its border. */
	f.area = lines + (p->size - 1) * (2 + (lines - 1) / out_lines);
	f.by_chunks = divisor_of(p->c / 8);
	f.by_width = divisor_of(f.width);
	f.by_lines = divisor_of(f.lines);
	f.by_slices = divisor_of(p->c / 32);
	return f;
}

static size_t near_bytes(const struct near *f, enum mode mode, int columns)
{
	size_t slice = mode == FORWARD ? (size_t)columns * 40 : 32 * (size_t)(columns + 8);

	return (STAGES * slice + (size_t)f->area * (size_t)f->line) * sizeof(bf16);
}

int conv_near_rows(const struct product *p, enum mode mode)
{
	int columns = near_columns(p);

	if (p->stride != 1 || p->size < 2 || p->pad >= p->size || p->c % 32 != 0)
		return 0;
	for (int rows = 256; rows >= 128; rows /= 2) {
		struct near f = near_of(p, mode, rows);
		long long tiles =
			(long long)ceil_div(p->rows, rows) * ceil_div(p->columns, columns);

		if (near_bytes(&f, mode, columns) <= NEAR_BYTES &&
			tiles >= (rows == 256 ? 2 * KERNEL_SM : KERNEL_SM / 2))
			return rows;
	}
	return 0;
}

template <class S> static cudaError_t start_near(const struct product *p, cudaStream_t stream)
{
	struct near f = near_of(p, S::MODE, S::ROWS);
	dim3 grid((unsigned)ceil_div(p->rows, S::ROWS), (unsigned)ceil_div(p->columns, S::COLUMNS));

	return launch(
		conv_near_tile<S>, grid, THREADS, near_bytes(&f, S::MODE, S::COLUMNS), stream, f);
}

template <enum mode MODE, bool POOLED>
static cudaError_t start_near_mode(const struct product *p, int rows, cudaStream_t stream)
{
#define NEAR(ROWS, COLUMNS) \
	start_near<shape_of<bf16, DTYPE_BF16, MODE, ROWS, COLUMNS, 4, true, POOLED>>(p, stream)
	if (near_columns(p) == 64)
		return rows == 256 ? NEAR(256, 64) : NEAR(128, 64);
	return rows == 256 ? NEAR(256, 32) : NEAR(128, 32);
#undef NEAR
}

cudaError_t conv_near(const struct product *p, enum mode mode, int rows, cudaStream_t stream)
{
	if (mode == BACKWARD_DATA)
		return start_near_mode<BACKWARD_DATA, false>(p, rows, stream);
	return p->pooled ? start_near_mode<FORWARD, true>(p, rows, stream)
			 : start_near_mode<FORWARD, false>(p, rows, stream);
}
