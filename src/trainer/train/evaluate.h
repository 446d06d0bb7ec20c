/*
 * How many images a network gets wrong.
 */
#ifndef MLT_TRAIN_EVALUATE_H
#define MLT_TRAIN_EVALUATE_H

#include "trainer/backend/backend.h"

#include <signal.h>
#include <stdint.h>

/*
 * Write images into an engine's input: (pixel - mean) / scale.
 *
 *   images   [..][pixels]
 *   order    which images, [n]; NULL: the first n
 */
void evaluate_fill(
	struct engine *e, const uint8_t *images, const uint32_t *order, int n, size_t pixels);

/*
 * Predict count images and count those whose highest logit is not the label's.
 *
 *   stop   when not NULL and not 0, the work ends early
 *
 * Returns the number of wrong ones, or -EINTR when stopped.
 */
int64_t evaluate(struct engine *e, int classes, const uint8_t *images, const uint8_t *labels,
	uint32_t count, size_t pixels, const volatile sig_atomic_t *stop);

#endif
