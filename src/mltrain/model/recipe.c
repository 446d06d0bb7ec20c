#include "model/recipe.h"

#include <math.h>

static double clamp(double v)
{
	return !(v > 0) ? 0 : v > 1 ? 1 : v;
}

/* Return the position between two steps: 0 up to from, 1 at to and after. */
static double share(double step, double from, double to)
{
	return to > from ? clamp((step - from) / (to - from)) : step >= to;
}

static double steps_factor(const struct schedule *s, double epochs)
{
	double factor = 1;

	for (int i = 0; i < s->ats; i++)
		if (epochs >= s->at[i])
			factor *= s->decay;
	return factor;
}

static double one_cycle_factor(const struct schedule *s, double step, double last)
{
	double top = s->rise * last;

	if (step < top)
		return s->start + (1 - s->start) * share(step, 0, top);
	return 1 + (s->final - 1) * (last > top ? share(step, top, last) : 0);
}

uint32_t recipe_validation(const struct recipe *r, uint32_t images)
{
	if (r->validation != RECIPE_VALIDATION_UNSAID)
		return r->validation;
	return images / 10 < RECIPE_VALIDATION ? images / 10 : RECIPE_VALIDATION;
}

double recipe_lr(const struct recipe *r, uint64_t step, uint64_t epoch_steps, uint64_t steps)
{
	const struct schedule *s = &r->schedule;
	double per_epoch = epoch_steps ? (double)epoch_steps : 1;
	double at = (double)step, last = steps > 1 ? (double)(steps - 1) : 0;
	double warm = s->kind == SCHEDULE_ONE_CYCLE ? 0 : s->warmup * per_epoch;
	double factor = 1;

	switch (s->kind) {
	case SCHEDULE_CONSTANT:
		break;
	case SCHEDULE_EXPONENTIAL:
		factor = pow(s->decay, (double)(step / (epoch_steps ? epoch_steps : 1)));
		break;
	case SCHEDULE_STEPS:
		factor = steps_factor(s, at / per_epoch);
		break;
	case SCHEDULE_COSINE:
		factor = s->final +
			(1 - s->final) * (1 + cos(M_PI * (at > warm ? share(at, warm, last) : 0))) /
				2;
		break;
	case SCHEDULE_ONE_CYCLE:
		factor = one_cycle_factor(s, at, last);
		break;
	}
	return r->lr * factor * (warm > 0 ? clamp((at + 1) / warm) : 1);
}
