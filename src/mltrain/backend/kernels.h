/*
 * Passes of the backend `onednn` that touch memory less often than a sequence of oneDNN's
 * primitives: ReLU, sums and dropout; pooling.h and norm.h have more. Each runs on all threads with
 * the CPU's widest vectors. ops.h defines them in plain loops.
 *
 * Activations are floats or, if bf16 is set, bfloat16 (wide.h). Memory is allocated up to a
 * multiple of 64 bytes, and elementwise passes read and write all of it.
 */
#ifndef MLT_BACKEND_KERNELS_H
#define MLT_BACKEND_KERNELS_H

#include "base/base.h"

#define KERNELS_THREADS_MAX 1024

/*
 * The layout of an activation: [n][ceil(c / block)][h][w][block], with padding for channels above
 * c. A batch of rows has h = w = 1 and block = c.
 */
struct kernel_image {
	int n, c, h, w, block;
	int bf16;
};

/* Count the elements, including padding. */
static inline size_t kernel_image_count(const struct kernel_image *i)
{
	return (size_t)i->n * (size_t)((i->c + i->block - 1) / i->block * i->block) * (size_t)i->h *
		(size_t)i->w;
}

/* y = max(x, 0), NaN stays NaN; its gradient in place: dy where y > 0, else 0. */
void kernel_relu_forward(size_t n, const void *x, void *y, int bf16);
void kernel_relu_backward(size_t n, const void *y, void *dy, int bf16);

/* y = a + b, then max(y, 0) if relu; y may be a or b. */
void kernel_add(size_t n, const void *a, const void *b, void *y, int relu, int bf16);

/* Copy, converting between floats and bfloat16. */
void kernel_convert(size_t n, const void *x, int x_bf16, void *y, int y_bf16);

/* Copy as bfloat16 in the calling thread alone. */
void kernel_to_bf16(size_t n, const float *x, uint16_t *y);

/* Round floats to those that bf16 has, on all threads. */
void kernel_round_to_bf16(size_t n, const float *x, float *y);

/*
 * Dropout (rng_dropout() decides which elements). A bit of the mask is 1 for an element that is
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

/* y = x / (1 - rate) where kept, else 0; the gradient likewise. y may be x. */
void kernel_dropout_apply(const struct kernel_dropout *d, const void *x, void *y);

#endif
