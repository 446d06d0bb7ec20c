#include "backend/kernels.h"

#include "backend/parallel.h"
#include "tensor/wide.h"
#include "tensor/philox.h"

/* At -O2 gcc 12 leaves most of these loops scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define LANES WIDE_LANES

/* --- elementwise --------------------------------------------------------------------------- */

enum map { MAP_RELU, MAP_RELU_BACK, MAP_ADD, MAP_ADD_RELU, MAP_ROUND, MAP_COPY };

struct map_call {
	size_t n;
	const void *x, *y;
	void *z;
	int bf16, z_bf16;
	enum map map;
};

INLINE void map_lanes(
	const struct map_call *c, enum map map, int bf16, int z_bf16, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += LANES) {
		vecf x, y;

		wide_load(&x, c->x, i, bf16);
		if (map == MAP_RELU) {
			x = (vecf)((veci)x & ~(veci)(x < 0));
		} else if (map == MAP_RELU_BACK) {
			wide_load(&y, c->y, i, bf16);
			x = (vecf)((veci)x & (veci)(y > 0));
		} else if (map == MAP_ADD || map == MAP_ADD_RELU) {
			wide_load(&y, c->y, i, bf16);
			x = x + y;
			if (map == MAP_ADD_RELU)
				x = (vecf)((veci)x & ~(veci)(x < 0));
		} else if (map == MAP_ROUND) {
			vech half;

			wide_store(&half, 0, &x, 1);
			wide_load(&x, &half, 0, 1);
		}
		wide_store(c->z, i, &x, z_bf16);
	}
}

/* A loop of its own for each map and kind of number. */
WIDE static void map_in_thread(void *ctx, int me, int of)
{
	const struct map_call *c = ctx;
	size_t from = parallel_from(c->n, 64, me, of), to = parallel_from(c->n, 64, me + 1, of);

#define MAP(m)                                           \
	case m:                                          \
		if (c->bf16)                             \
			map_lanes(c, m, 1, 1, from, to); \
		else                                     \
			map_lanes(c, m, 0, 0, from, to); \
		break
	switch (c->map) {
		MAP(MAP_RELU);
		MAP(MAP_RELU_BACK);
		MAP(MAP_ADD);
		MAP(MAP_ADD_RELU);
		MAP(MAP_ROUND);
	case MAP_COPY:
		if (c->bf16 && !c->z_bf16)
			map_lanes(c, MAP_COPY, 1, 0, from, to);
		else if (!c->bf16 && c->z_bf16)
			map_lanes(c, MAP_COPY, 0, 1, from, to);
		else if (from < to)
			memcpy((char *)c->z + from * wide_size(c->bf16),
				(const char *)c->x + from * wide_size(c->bf16),
				(to - from) * wide_size(c->bf16));
		break;
	}
#undef MAP
}

void kernel_relu_forward(size_t n, const void *x, void *y, int bf16)
{
	struct map_call c = { n, x, NULL, y, bf16, bf16, MAP_RELU };

	parallel_run(map_in_thread, &c);
}

void kernel_relu_backward(size_t n, const void *y, void *dy, int bf16)
{
	struct map_call c = { n, dy, y, dy, bf16, bf16, MAP_RELU_BACK };

	parallel_run(map_in_thread, &c);
}

void kernel_add(size_t n, const void *a, const void *b, void *y, int relu, int bf16)
{
	struct map_call c = { n, a, b, y, bf16, bf16, relu ? MAP_ADD_RELU : MAP_ADD };

	parallel_run(map_in_thread, &c);
}

void kernel_convert(size_t n, const void *x, int x_bf16, void *y, int y_bf16)
{
	struct map_call c = { n, x, NULL, y, x_bf16, y_bf16, MAP_COPY };

	parallel_run(map_in_thread, &c);
}

void kernel_round_to_bf16(size_t n, const float *x, float *y)
{
	struct map_call c = { n, x, NULL, y, 0, 0, MAP_ROUND };

	parallel_run(map_in_thread, &c);
}

WIDE static void to_bf16(size_t n, const float *x, uint16_t *y)
{
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		wide_store(y, i, (const vecf *)(x + i), 1);
	for (; i < n; i++)
		wide_put(y, i, x[i], 1);
}

/* clang gives a function of several widths no name that other files can call. */
void kernel_to_bf16(size_t n, const float *x, uint16_t *y)
{
	to_bf16(n, x, y);
}

/* --- dropout ------------------------------------------------------------------------------- */

struct dropout_call {
	const struct kernel_dropout *d;
	uint64_t seed, step, first;
	uint32_t layer;
	const void *x;
	void *y;
};

static size_t dropout_count(const struct kernel_dropout *d)
{
	return (size_t)d->image.n * (size_t)d->image.c * (size_t)d->image.h * (size_t)d->image.w;
}

/* The words of so many blocks from one on; the loop becomes vectors, a block a lane. */
INLINE void words_of(const struct dropout_call *c, uint64_t block, int blocks, uint32_t *words)
{
	uint32_t word[4][LANES];

	for (int i = 0; i < blocks; i++) {
		struct philox p =
			philox_dropout(c->seed, c->step, c->layer, (uint32_t)(block + (uint64_t)i));

		for (int k = 0; k < 4; k++)
			word[k][i] = p.word[k];
	}
	for (int i = 0; i < blocks; i++)
		for (int k = 0; k < 4; k++)
			words[4 * i + k] = word[k][i];
}

/* Four groups of 16 elements at a time, which begin anywhere within the first block. */
WIDE static void draw_in_thread(void *ctx, int me, int of)
{
	const struct dropout_call *c = ctx;
	size_t groups = (dropout_count(c->d) + 15) / 16;
	size_t to = parallel_from(groups, 4, me + 1, of);
	uint32_t threshold = philox_threshold(c->d->rate), words[4 * LANES + 4];

	for (size_t at = parallel_from(groups, 4, me, of); at < to; at += 4) {
		uint64_t element = c->first + at * 16;

		words_of(c, element / 4, LANES, words);
		words_of(c, element / 4 + LANES, 1, words + 4 * LANES);
		for (size_t g = 0; g < 4 && at + g < to; g++) {
			const uint32_t *w = words + element % 4 + g * 16;
			uint16_t bits = 0;

			for (int k = 0; k < 16; k++)
				bits |= (uint16_t)((w[k] >= threshold) << k);
			c->d->bits[at + g] = bits;
		}
	}
}

void kernel_dropout_draw(const struct kernel_dropout *d, uint64_t seed, uint64_t step,
	uint32_t layer, uint64_t first)
{
	struct dropout_call c = {
		.d = d, .seed = seed, .step = step, .first = first, .layer = layer
	};

	parallel_run(draw_in_thread, &c);
}

INLINE int is_kept(const struct kernel_dropout *d, size_t element)
{
	return d->bits[element / 16] >> element % 16 & 1;
}

/* Elements that lie in the order of the mask. */
INLINE void apply_in_order(const struct dropout_call *c, size_t from, size_t to, int bf16)
{
	static const vecu lane = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192,
		16384, 32768 };
	float keep = 1 / (1 - c->d->rate);

	for (size_t i = from; i < to; i += LANES) {
		vecu bits = (lane & (uint32_t)c->d->bits[i / 16]) != 0;
		vecf x;

		wide_load(&x, c->x, i, bf16);
		x = (vecf)((vecu)(x * keep) & bits);
		wide_store(c->y, i, &x, bf16);
	}
}

/* Apply dropout to an image's elements one by one, in any layout. */
INLINE void apply_scattered(const struct dropout_call *c, int from, int to)
{
	const struct kernel_image *m = &c->d->image;
	size_t pixels = (size_t)m->h * (size_t)m->w, b = (size_t)m->block;
	size_t blocks = ((size_t)m->c + b - 1) / b;
	float keep = 1 / (1 - c->d->rate);

	for (size_t n = (size_t)from; n < (size_t)to; n++)
		for (size_t k = 0; k < blocks * b; k++)
			for (size_t p = 0; p < pixels; p++) {
				size_t at = ((n * blocks + k / b) * pixels + p) * b + k % b;
				size_t element = (n * (size_t)m->c + k) * pixels + p;
				int kept = k < (size_t)m->c && is_kept(c->d, element);
				float x = wide_get(c->x, at, m->bf16);

				wide_put(c->y, at, kept ? x * keep : 0, m->bf16);
			}
}

WIDE static void apply_in_thread(void *ctx, int me, int of)
{
	const struct dropout_call *c = ctx;
	const struct kernel_image *m = &c->d->image;
	size_t count = dropout_count(c->d), from = parallel_from(count, 64, me, of);
	size_t to = parallel_from(count, 64, me + 1, of);

	if (m->block != 1 && (m->block != m->c || m->h * m->w != 1))
		apply_scattered(c, (int)parallel_from((size_t)m->n, 1, me, of),
			(int)parallel_from((size_t)m->n, 1, me + 1, of));
	else if (m->bf16)
		apply_in_order(c, from, to, 1);
	else
		apply_in_order(c, from, to, 0);
}

void kernel_dropout_apply(const struct kernel_dropout *d, const void *x, void *y)
{
	struct dropout_call c = { .d = d, .x = x, .y = y };

	parallel_run(apply_in_thread, &c);
}
