/*
 * Transforms weights and their gradients: winograd_weights() of winograd.h, and the backward pass.
 */
#ifndef MLT_BACKEND_WINOGRAD_WEIGHTS_H
#define MLT_BACKEND_WINOGRAD_WEIGHTS_H

#include "backend/winograd.h"

/*
 * Compute the gradients of w and of the bias from the sums of the threads.
 *
 *   sums   each thread's dU [threads][64][c][k], then db [threads][k]; the first dU becomes the sum
 *   db     or NULL
 */
void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db);

#endif
