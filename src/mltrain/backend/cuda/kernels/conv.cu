/*
 * Convolutions and dense layers as one matrix product each, whose operands are gathered on the way
 * into shared memory ("implicit GEMM": Chetlur et al., "cuDNN: Efficient Primitives for Deep
 * Learning", 2014). rows x columns, summed over depth:
 *
 *                       rows               columns           depth
 *   FORWARD             pixels of y        k                 (r, s, c)
 *   BACKWARD_DATA       pixels of x        c                 (r, s, k)
 *   BACKWARD_WEIGHTS    k                  (r, s, c)         pixels of y
 *
 * A block of 128 threads makes a tile of the result from STAGES slices of depth in flight. An
 * operand lies in shared memory as memory has it: along (a row's depth is contiguous) or across
 * (what is contiguous is the rows or columns at one depth); ldmatrix turns the latter.
 * When the result has too few tiles for the GPU, depth is split over blocks: forward and
 * backward_data add the parts up in the block that comes last, in the parts' order; the weights'
 * parts are left to kernel_sum() or kernel_update().
 */
#include "backend/cuda/kernels/kernels.h"

#include "backend/cuda/kernels/conv_math.cuh"
#include "backend/cuda/kernels/conv_near.cuh"
#include "backend/cuda/kernels/conv_operands.cuh"

#define SPLITS_MAX 256

/* --- what becomes of the sums --- */

/*
 * Add up a tile's parts of depth. Returns whether this block has the whole: the one that came last,
 * which adds in the parts' order whoever it is.
 */
template <class S>
static __device__ bool add_parts(const struct product &p, float sum[S::M][S::N][4])
{
	const size_t each = S::M * S::N * 4;
	size_t tile = blockIdx.x + (size_t)gridDim.x * blockIdx.y,
	       tiles = (size_t)gridDim.x * gridDim.y;
	float *mine = p.partial + (blockIdx.z * tiles + tile) * each * THREADS + threadIdx.x;
	volatile unsigned *last = (volatile unsigned *)(void *)shared_memory();
	float *flat = &sum[0][0][0];

#pragma unroll
	for (size_t i = 0; i < each; i++)
		mine[i * THREADS] = flat[i];
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		*last = atomicInc(&p.tickets[tile], (unsigned)p.splits - 1) ==
			(unsigned)p.splits - 1;
	__syncthreads();
	if (!*last)
		return false;

	__threadfence();
#pragma unroll
	for (size_t i = 0; i < each; i++)
		flat[i] = 0;
	for (int z = 0; z < p.splits; z++) {
		const float *part =
			p.partial + ((size_t)z * tiles + tile) * each * THREADS + threadIdx.x;

#pragma unroll
		for (size_t i = 0; i < each; i++)
			flat[i] += __ldcg(part + i * THREADS);
	}
	return true;
}

/* A part of the weights' gradient. */
static __device__ __forceinline__ void store_part(
	const struct product &p, int row, int column, const float d[4])
{
	float *to = p.partial + blockIdx.z * p.partial_stride;
	int aligned = p.columns % 2 == 0 && (uintptr_t)to % 8 == 0;

	row += (int)threadIdx.x % WARP / 4;
	column += 2 * ((int)threadIdx.x % 4);
	for (int half = 0; half < 2; half++)
		if (row + 8 * half < p.rows && column < p.columns)
			store_pair(to + (size_t)(row + 8 * half) * (size_t)p.columns + column,
				d[2 * half], d[2 * half + 1], column + 1 < p.columns, aligned);
}

/* The biases' gradient: the sum of operand A over depth; sum is this thread's share. */
template <class S>
static __device__ void store_bias_part(const struct product &p, int row0, float sum)
{
	float *share = (float *)(void *)shared_memory();
	int row = (int)threadIdx.x;

	__syncthreads();
	share[threadIdx.x] = sum;
	__syncthreads();
	if (row >= S::ROWS || row0 + row >= p.rows)
		return;
	for (int i = row + S::ROWS; i < THREADS; i += S::ROWS)
		sum += share[i];
	p.partial[blockIdx.z * p.partial_stride + (size_t)p.rows * (size_t)p.columns + row0 + row] =
		sum;
}

template <class S>
static __device__ __forceinline__ void store(
	const struct product &p, int row, int column, float sum[S::M][S::N][4])
{
	typedef typename S::T T;

	if constexpr (S::MODE != BACKWARD_WEIGHTS)
		if (p.splits > 1 && !add_parts<S>(p, sum))
			return;
	if constexpr (S::POOLED) {
		store_tiles_pooled<S>(p, row, column, false, sum);
	} else {
#pragma unroll
		for (int m = 0; m < S::M; m++)
#pragma unroll
			for (int n = 0; n < S::N; n++) {
				int r = row + 16 * m, c = column + 8 * n;

				if constexpr (S::MODE == FORWARD)
					store_after(&p.after, (T *)p.to, p.rows, p.columns, r, c,
						sum[m][n]);
				else if constexpr (S::MODE == BACKWARD_DATA)
					store_before(&p.before, (T *)p.to, p.rows, p.columns, r, c,
						sum[m][n]);
				else
					store_part(p, r, c, sum[m][n]);
			}
	}
}

template <class S> __global__ void __launch_bounds__(THREADS) conv_tile(const struct product p)
{
	behind_previous();

	typedef typename S::T T;
	T *a = (T *)(void *)shared_memory(), *b = a + STAGES * S::A_SIZE;
	int slices = (p.depth + S::SLICE - 1) / S::SLICE;
	int from = (int)((long long)slices * (int)blockIdx.z / p.splits);
	int to = (int)((long long)slices * ((int)blockIdx.z + 1) / p.splits);
	int row0 = (int)blockIdx.x * S::ROWS, column0 = (int)blockIdx.y * S::COLUMNS;
	int warp = (int)threadIdx.x / WARP;
	int row = warp / S::WARP_COLUMNS * (16 * S::M),
	    column = warp % S::WARP_COLUMNS * (8 * S::N);
	bool sums_bias = S::MODE == BACKWARD_WEIGHTS && p.bias && blockIdx.y == 0;
	float sum[S::M][S::N][4] = {}, bias = 0;
	struct places<S> at;

	find_places<S>(p, row0, column0, &at);
	for (int i = 0; i < STAGES - 1; i++) {
		if (from + i < to)
			fill<S>(p, at, row0, column0, from + i, a + i * S::A_SIZE,
				b + i * S::B_SIZE);
		copy_commit();
	}
	for (int slice = from, stage = 0; slice < to; slice++) {
		int ahead = slice + STAGES - 1, free = (stage + STAGES - 1) % STAGES;
		const T *sa = a + stage * S::A_SIZE, *sb = b + stage * S::B_SIZE;

		copy_wait<STAGES - 2>();
		__syncthreads();
		if (ahead < to)
			fill<S>(p, at, row0, column0, ahead, a + free * S::A_SIZE,
				b + free * S::B_SIZE);
		copy_commit();
		multiply<S>(sa + row * (S::A_ACROSS ? 1 : S::A_PITCH),
			sb + column * (S::B_ACROSS ? 1 : S::B_PITCH), sum);
		if (sums_bias)
			for (int k = (int)threadIdx.x / S::ROWS; k < S::SLICE;
				k += THREADS / S::ROWS)
				bias += to_float(sa[k * S::A_PITCH + (int)threadIdx.x % S::ROWS]);
		stage = (stage + 1) % STAGES;
	}
	copy_wait<0>();
	store<S>(p, row0 + row, column0 + column, sum);
	if (sums_bias)
		store_bias_part<S>(p, row0, bias);
}

/* --- which tiles, and how many parts --- */

struct choice {
	int rows, columns; /* of a tile */
	int splits;
};

static int slices_of(enum dtype dtype, int depth)
{
	return ceil_div(depth, DEPTH / (int)kernel_size(dtype));
}

/* For forward and backward_data: the larger tile where it gives every multiprocessor two blocks. */
static struct choice choose_tile(enum dtype dtype, bool fast, int rows, int columns, int depth)
{
	struct choice c = { 128, columns > 32 ? 64 : 32, 1 };
	int tiles, most;

	if (dtype != DTYPE_BF16)
		c.columns = 64;
	else if (!fast ||
		ceil_div(rows, c.rows) * (long long)ceil_div(columns, c.columns) < 2 * KERNEL_SM)
		c = (struct choice){ 64, 32, 1 };
	if ((long long)ceil_div(rows, c.rows) * ceil_div(columns, c.columns) >= KERNEL_SM)
		return c;

	tiles = ceil_div(rows, c.rows) * ceil_div(columns, c.columns);
	most = slices_of(dtype, depth) / 8;
	c.splits = KERNEL_SM / tiles;
	c.splits = c.splits > most ? most : c.splits;
	c.splits = c.splits > 16 ? 16 : c.splits < 1 ? 1 : c.splits;
	return c;
}

/* Bytes of the parts of a product, whichever tile is taken. */
static size_t scratch_of(enum dtype dtype, int rows, int columns, int depth)
{
	size_t most = 0;

	for (int fast = 0; fast < 2; fast++) {
		struct choice c = choose_tile(dtype, fast, rows, columns, depth);
		size_t tiles =
			(size_t)ceil_div(rows, c.rows) * (size_t)ceil_div(columns, c.columns);
		size_t bytes = tiles * (size_t)(c.splits * c.rows * c.columns) * sizeof(float);

		if (c.splits > 1 && bytes > most)
			most = bytes;
	}
	return most;
}

size_t kernel_conv_scratch(const struct kernel_conv *d, enum dtype dtype)
{
	int taps = d->r * d->r, windows = d->n * (d->p / 2) * (d->q / 2);
	size_t need[3] = {
		scratch_of(dtype, d->n * d->p * d->q, d->k, taps * d->c),
		windows ? scratch_of(dtype, 4 * windows, d->k, taps * d->c) : 0,
		scratch_of(dtype, d->n * d->h * d->w, d->c, taps * d->k),
	};

	for (int i = 1; i < 3; i++)
		if (need[i] > need[0])
			need[0] = need[i];
	return need[0];
}

template <class S> static cudaError_t start(const struct product &p, cudaStream_t stream)
{
	dim3 grid((unsigned)ceil_div(p.rows, S::ROWS), (unsigned)ceil_div(p.columns, S::COLUMNS),
		(unsigned)p.splits);

	return launch(conv_tile<S>, grid, THREADS, S::BYTES, stream, p);
}

static bool aligned(const void *p)
{
	return (uintptr_t)p % CHUNK == 0;
}

/* The image that taps are read from is h x w x c; the pixels are those of one of ph x pw. */
static void set_images(
	struct product *p, const struct kernel_conv *d, int h, int w, int c, int ph, int pw)
{
	p->h = h;
	p->w = w;
	p->c = c;
	p->stride = d->stride;
	p->pad = d->pad;
	p->size = d->r;
	p->by_q = divisor_of(pw);
	p->by_p = divisor_of(ph);
	p->by_c = divisor_of(c);
	p->by_s = divisor_of(d->r);
}

/* Forward and backward_data: dtypes other than bf16 have one tile. */
template <enum mode MODE, bool POOLED>
static cudaError_t start_tiles(const struct product &p, enum dtype dtype, const struct choice &c,
	bool fast, cudaStream_t stream)
{
#define TILES(T, MATH, ROWS, COLUMNS, WARP_ROWS, FAST) \
	start<shape_of<T, MATH, MODE, ROWS, COLUMNS, WARP_ROWS, FAST, POOLED>>(p, stream)
	if (dtype == DTYPE_F32)
		return fast ? TILES(float, DTYPE_F32, 128, 64, 2, true)
			    : TILES(float, DTYPE_F32, 128, 64, 2, false);
	if (dtype == DTYPE_TF32)
		return fast ? TILES(float, DTYPE_TF32, 128, 64, 2, true)
			    : TILES(float, DTYPE_TF32, 128, 64, 2, false);
	if (!fast)
		return TILES(bf16, DTYPE_BF16, 64, 32, 2, false);
	if (c.rows == 64)
		return TILES(bf16, DTYPE_BF16, 64, 32, 2, true);
	if (c.columns == 32)
		return TILES(bf16, DTYPE_BF16, 128, 32, 4, true);
	return TILES(bf16, DTYPE_BF16, 128, 64, 2, true);
#undef TILES
}

template <enum mode MODE, bool POOLED>
static cudaError_t start_product(struct product p, enum dtype dtype, bool fast,
	const struct kernel_scratch *scratch, cudaStream_t stream)
{
	int near = fast && dtype == DTYPE_BF16 ? conv_near_rows(&p, MODE) : 0;
	struct choice c = choose_tile(dtype, fast, p.rows, p.columns, p.depth);

	p.splits = c.splits;
	p.partial = c.splits > 1 ? (float *)scratch->memory : NULL;
	p.tickets = c.splits > 1 ? scratch->tickets : NULL;
	if (near)
		return conv_near(&p, MODE, near, stream);
	return start_tiles<MODE, POOLED>(p, dtype, c, fast, stream);
}

cudaError_t kernel_conv_forward(const struct kernel_conv *d, enum dtype dtype, const void *x,
	const void *w, const struct kernel_after *after, void *y,
	const struct kernel_scratch *scratch, cudaStream_t stream)
{
	bool fast = d->c % (CHUNK / (int)kernel_size(dtype)) == 0 && aligned(x) && aligned(w);
	struct product p = {};

	p.a = x;
	p.b = w;
	p.to = y;
	p.after = after_of(after);
	p.pooled = after->winners != NULL;
	p.rows = p.pooled ? d->n * (d->p / 2) * (d->q / 2) * 4 : d->n * d->p * d->q;
	p.columns = d->k;
	p.depth = d->r * d->r * d->c;
	set_images(&p, d, d->h, d->w, d->c, p.pooled ? d->p / 2 : d->p, p.pooled ? d->q / 2 : d->q);
	if (p.rows < 1 || (after->rate > 0 && d->p * d->q > 1) || (p.pooled && after->rate > 0))
		return cudaErrorInvalidValue;

	return p.pooled ? start_product<FORWARD, true>(p, dtype, fast, scratch, stream)
			: start_product<FORWARD, false>(p, dtype, fast, scratch, stream);
}

cudaError_t kernel_conv_backward_data(const struct kernel_conv *d, enum dtype dtype, const void *dy,
	const void *w, const struct kernel_before *before, void *dx,
	const struct kernel_scratch *scratch, cudaStream_t stream)
{
	int v = CHUNK / (int)kernel_size(dtype);
	bool fast = d->c % v == 0 && d->k % v == 0 && aligned(dy) && aligned(w);
	struct product p = {};

	p.a = dy;
	p.b = w;
	p.to = dx;
	p.before = *before;
	p.rows = d->n * d->h * d->w;
	p.columns = d->c;
	p.depth = d->r * d->r * d->k;
	set_images(&p, d, d->p, d->q, d->k, d->h, d->w);
	if (p.rows < 1)
		return cudaErrorInvalidValue;

	return start_product<BACKWARD_DATA, false>(p, dtype, fast, scratch, stream);
}

int kernel_conv_splits(const struct kernel_conv *d, enum dtype dtype)
{
	int tiles = ceil_div(d->k, 64) * ceil_div(d->r * d->r * d->c, 160);
	int most = slices_of(dtype, d->n * d->p * d->q) / 12;
	int splits = 2 * KERNEL_SM / tiles;

	splits = splits > most ? most : splits;
	return splits > SPLITS_MAX ? SPLITS_MAX : splits < 1 ? 1 : splits;
}

cudaError_t kernel_conv_backward_weights(const struct kernel_conv *d, enum dtype dtype,
	const void *x, const void *dy, int splits, size_t stride, int bias, float *partial,
	cudaStream_t stream)
{
	int v = CHUNK / (int)kernel_size(dtype);
	bool fast = d->c % v == 0 && d->k % v == 0 && aligned(x) && aligned(dy);
	struct product p = {};

	p.a = dy;
	p.b = x;
	p.rows = d->k;
	p.columns = d->r * d->r * d->c;
	p.depth = d->n * d->p * d->q;
	set_images(&p, d, d->h, d->w, d->c, d->p, d->q);
	p.splits = splits;
	p.partial = partial;
	p.partial_stride = stride;
	p.bias = bias;
	if (p.depth < 1 || splits < 1)
		return cudaErrorInvalidValue;

#define WEIGHTS(T, MATH)                                                                \
	(fast ? start<shape_of<T, MATH, BACKWARD_WEIGHTS, 64, 160, 2, true>>(p, stream) \
	      : start<shape_of<T, MATH, BACKWARD_WEIGHTS, 64, 160, 2, false>>(p, stream))
	if (dtype == DTYPE_F32)
		return WEIGHTS(float, DTYPE_F32);
	if (dtype == DTYPE_TF32)
		return WEIGHTS(float, DTYPE_TF32);
	return WEIGHTS(bf16, DTYPE_BF16);
#undef WEIGHTS
}
