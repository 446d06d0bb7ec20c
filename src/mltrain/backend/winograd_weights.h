/*
 * Transforms weights and their gradients: two functions of struct winograd_code, and the backward
 * pass. Compiled for each size of kernel and width of vectors, like winograd.c, by names that say
 * which.
 */
#ifndef MLT_BACKEND_WINOGRAD_WEIGHTS_H
#define MLT_BACKEND_WINOGRAD_WEIGHTS_H

#include "backend/winograd_line.h"
#include "backend/winograd.h"

#define WINOGRAD_NAMED(name, kernel, lanes)  name##_##kernel##_##lanes
#define WINOGRAD_NAMED_(name, kernel, lanes) WINOGRAD_NAMED(name, kernel, lanes)
#define WINOGRAD_NAME(name)                  WINOGRAD_NAMED_(name, WINOGRAD_KERNEL, WIDE_LANES)

#define winograd_weights      WINOGRAD_NAME(winograd_weights)
#define winograd_pairs        WINOGRAD_NAME(winograd_pairs)
#define winograd_weights_back WINOGRAD_NAME(winograd_weights_back)

void winograd_weights(const struct winograd *g, const float *w, float *u, float *ut);
void winograd_pairs(const struct winograd *g, const float *u, const float *ut, uint32_t *pairs,
	uint32_t *pairs_t);

/*
 * Compute the gradients of w and of the bias from the sums of the threads.
 *
 *   sums   each thread's dU [threads][points][c][k], then db [threads][k]; the first dU becomes the
 *          sum
 *   db     or NULL
 */
void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db);

#endif
