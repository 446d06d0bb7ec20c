#include "metrics/live.h"

void rate_start(struct rate *r, const struct train_state *s)
{
	*r = (struct rate){
		.first_step = s->step,
		.step = s->step,
		.first_seconds = s->step_seconds,
		.seconds = s->step_seconds,
		.first_epochs = s->epochs_done,
		.first_evaluate = s->evaluate_seconds,
	};
}

void rate_step(struct rate *r, const struct train_state *s, int images)
{
	double spent = s->step_seconds - r->seconds, keep = exp(-spent / RATE_SMOOTH_S);

	r->images = r->images * keep + (double)(s->step - r->step) * images;
	r->spent = r->spent * keep + spent;
	r->step = s->step;
	r->seconds = s->step_seconds;
}

double rate_smooth(const struct rate *r)
{
	return r->spent > 0 ? r->images / r->spent : 0;
}

double rate_mean(const struct rate *r, const struct train_state *s, int images)
{
	double spent = s->step_seconds - r->first_seconds;

	return spent > 0 ? (double)(s->step - r->first_step) * images / spent : 0;
}

double rate_left(const struct rate *r, const struct train_state *s)
{
	uint64_t made = s->step - r->first_step;
	double step = made ? (s->step_seconds - r->first_seconds) / (double)made : 0;
	int epochs = (int)((s->steps + s->epoch_steps - 1) / s->epoch_steps) - s->epochs_done;
	int validated = s->epochs_done - r->first_epochs;
	double evaluate = validated > 0 ? (s->evaluate_seconds - r->first_evaluate) / validated : 0;

	return step * (double)(s->steps - s->step) + evaluate * epochs;
}
