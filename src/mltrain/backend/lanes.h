/*
 * Kernels that are compiled for two widths of vectors, as they keep sums in as many registers as
 * there are: dense.c, imageconv.c, winograd.c and winograd_weights.c (these two for each size of
 * kernel as well). Their headers say what the functions do; what they keep in work memory and in
 * packed weights differs by width.
 */
#ifndef MLT_BACKEND_LANES_H
#define MLT_BACKEND_LANES_H

#include "backend/dense.h"
#include "backend/imageconv.h"
#include "backend/winograd.h"

struct lanes {
	size_t (*dense_packed)(const struct dense *g);
	void (*dense_pack)(const struct dense *g, const float *weights, float *packed);
	void (*dense_forward)(const struct dense *g, int rows, const float *x, const float *packed,
		const float *bias, int relu, float *y);

	size_t (*imageconv_work)(const struct imageconv *g);
	void (*imageconv_forward)(const struct imageconv *g, int rows, const float *x,
		const float *weights, const float *bias, int relu, void *y, uint8_t *winner,
		float *work);
	void (*imageconv_backward)(const struct imageconv *g, const float *x, const void *dy,
		const uint8_t *winner, float *dw, float *db, float *work);

	const struct winograd_code *winograd_3, *winograd_5; /* by the kernel's size */
};

extern const struct lanes lanes_16; /* AVX-512: F, VL, BW, DQ and CD */
extern const struct lanes lanes_8;  /* AVX2 and FMA; pairs of NEON's registers */

/* The widest that this CPU has and dnn_isa() allows, or NULL. */
const struct lanes *lanes_find(void);

#endif
