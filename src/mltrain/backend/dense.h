/*
 * Dense layers for engines that only predict. They are fast for any number of rows, even one, when
 * reading the weights takes all the time. Weights are packed once in the order in which they are
 * read, which depends on the input's layout.
 */
#ifndef MLT_BACKEND_DENSE_H
#define MLT_BACKEND_DENSE_H

#include "backend/kernels.h"

struct dense {
	struct kernel_image x; /* floats; each image is one row */
	int outputs;
};

/* Count the floats of the packed weights. */
size_t dense_packed(const struct dense *g);

/* Pack weights [outputs][c][h][w]. */
void dense_pack(const struct dense *g, const float *weights, float *packed);

/* y [rows][outputs] of x; bias [outputs] or NULL; y = max(y, 0) if relu. */
void dense_forward(const struct dense *g, int rows, const float *x, const float *packed,
	const float *bias, int relu, float *y);

#endif
