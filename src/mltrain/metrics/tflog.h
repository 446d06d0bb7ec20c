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
 * Steps are counted from 0, as in the tutorial. The time is a step's mean since the last block.
 */
#ifndef MLT_METRICS_TFLOG_H
#define MLT_METRICS_TFLOG_H

#include "train/train.h"

struct tflog {
	FILE *to; /* borrowed */
	uint64_t step;
	double seconds; /* step_seconds at that step */
};

/*
 * Print a moment's lines, if it has any. A block comes with TRAIN_VALIDATED, so the run needs
 * validate_every. The tutorial prints no block at the end of an epoch.
 *
 *   images   per step
 */
void tflog_tell(struct tflog *l, const struct train_state *s, int images);

#endif
