/*
 * The passes that the backend `onednn` does itself, because together they touch memory less often
 * than one oneDNN primitive after the other: ReLU, sums, dropout, and the whole update. Each runs
 * on all threads, and on every CPU with the widest vectors that it has. ops.h says what they
 * compute, in plain loops. pooling.h and norm.h have more of them.
 *
 * Activations are floats or, where bf16 says so, bfloat16 (wide.h). Memory is allocated up to a
 * multiple of 64 bytes, and elementwise passes read and write that rest too.
 */
#ifndef MLT_BACKEND_KERNELS_H
#define MLT_BACKEND_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define KERNELS_THREADS_MAX 1024

/*
 * How an activation lies: [n][ceil(c / block)][h][w][block], channels beyond c being padding. A
 * batch of rows has h = w = 1 and block = c.
 */
struct kernel_image {
	int n, c, h, w, block;
	int bf16;
};

/* Elements, padding included. */
static inline size_t kernel_image_count(const struct kernel_image *i)
{
	return (size_t)i->n * (size_t)((i->c + i->block - 1) / i->block * i->block) * (size_t)i->h *
		(size_t)i->w;
}

/* y = max(x, 0), a NaN staying one; its gradient in place: dy where y > 0, else 0. */
void kernel_relu_forward(size_t n, const void *x, void *y, int bf16);
void kernel_relu_backward(size_t n, const void *y, void *dy, int bf16);

/* y = a + b, then max(y, 0) if relu; y may be a or b. */
void kernel_add(size_t n, const void *a, const void *b, void *y, int relu, int bf16);

/* Copy, between floats and bfloat16 where they differ. */
void kernel_convert(size_t n, const void *x, int x_bf16, void *y, int y_bf16);

/* A copy in bfloat16, by the calling thread alone. */
void kernel_to_bf16(size_t n, const float *x, uint16_t *y);

/*
 * Dropout (rng_dropout() says which elements). A bit of the mask stands for an element that is
 * kept, in the order of [n][c][h][w].
 *
 *   first   the batch's first element among those of all ranks
 *   bits    [(elements + 15) / 16]
 */
struct kernel_dropout {
	struct kernel_image image;
	float rate;
	uint16_t *bits;
};

void kernel_dropout_draw(const struct kernel_dropout *d, uint64_t seed, uint64_t step,
	uint32_t layer, uint64_t first);

/* y = x / (1 - rate) where kept, else 0: forward, and the gradient alike. y may be x. */
void kernel_dropout_apply(const struct kernel_dropout *d, const void *x, void *y);

#endif
