/*
 * The transforms of weights and of their gradients: winograd_weights() of winograd.h, and the way
 * back.
 */
#ifndef MLT_BACKEND_WINOGRAD_WEIGHTS_H
#define MLT_BACKEND_WINOGRAD_WEIGHTS_H

#include "backend/winograd.h"

/*
 * The gradients of w and of the bias, of what threads have gathered.
 *
 *   sums   each thread's dU [threads][64][c][k], then db [threads][k]; the first dU becomes the sum
 *   db     or NULL
 */
void winograd_weights_back(const struct winograd *g, float *sums, float *dw, float *db);

#endif
