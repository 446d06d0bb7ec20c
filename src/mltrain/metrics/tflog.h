/*
 * The lines that TensorFlow's tutorial convolutional.py prints, for scripts that read them:
 *
 *   Initialized!
 *   Step 100 (epoch 0.12), 8.4 ms
 *   Minibatch loss: 3.230, learning rate: 0.010000
 *   Minibatch error: 4.7%
 *   Validation error: 7.5%
 *   …
 *   Test error: 0.8%
 *
 * Steps are counted from 0, as there. The time is the mean of a step since the block before.
 */
#ifndef MLT_METRICS_TFLOG_H
#define MLT_METRICS_TFLOG_H

#include "train/train.h"

#include <stdio.h>

struct tflog {
	FILE *to; /* borrowed */
	uint64_t step;
	double seconds; /* step_seconds at that step */
};

/*
 * Tell a moment. A block comes with TRAIN_VALIDATED, so the run is to have validate_every set; one
 * at the end of an epoch is no moment of the tutorial's.
 *
 *   images   those of one step
 */
void tflog_tell(struct tflog *l, const struct train_state *s, int images);

#endif
