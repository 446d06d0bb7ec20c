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
#include "metrics/live.h"

static void block(struct tflog *l, const struct train_state *s, int images)
{
	uint64_t index = s->step - 1, made = s->step - l->step;
	double ms = made ? 1e3 * (s->step_seconds - l->seconds) / (double)made : 0;

	fprintf(l->to, "Step %" PRIu64 " (epoch %.2f), %.1f ms\n", index,
		(double)index * images / s->train_images, ms);
	fprintf(l->to, "Minibatch loss: %.3f, learning rate: %.6f\n", s->loss, s->lr);
	fprintf(l->to, "Minibatch error: %.1f%%\n", 100 * s->batch_error);
	if (s->validation_error >= 0)
		fprintf(l->to, "Validation error: %.1f%%\n", 100 * s->validation_error);
	fflush(l->to);
	l->step = s->step;
	l->seconds = s->step_seconds;
}

void tflog_tell(struct tflog *l, const struct train_state *s, int images)
{
	switch (s->moment) {
	case TRAIN_STARTED:
		l->step = s->step;
		l->seconds = s->step_seconds;
		fputs("Initialized!\n", l->to);
		break;
	case TRAIN_VALIDATED:
		block(l, s, images);
		break;
	case TRAIN_TESTED:
		fprintf(l->to, "Test error: %.1f%%\n", 100 * s->test_error);
		break;
	default:
		break;
	}
	fflush(l->to);
}
