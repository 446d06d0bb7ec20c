#include "metrics/tflog.h"

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
	case TRAIN_STEPPED:
	case TRAIN_EPOCH_ENDED:
	case TRAIN_REGROUPED:
	case TRAIN_LEFT:
	case TRAIN_SAVED:
	case TRAIN_INTERRUPTED:
		break;
	}
	fflush(l->to);
}
