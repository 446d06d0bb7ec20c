#include "optimiser/optimiser.h"

const struct optimiser optimisers[OPTIMISERS] = {
	[OPTIMISER_SGD] = { "sgd", { "velocity" }, sgd_plain, sgd_wide },
	[OPTIMISER_ADAM] = { "adam", { "exp_avg", "exp_avg_sq" }, adam_plain, adam_wide },
	[OPTIMISER_ADAMW] = { "adamw", { "exp_avg", "exp_avg_sq" }, adam_decoupled_plain,
		adam_decoupled_wide, .decays = 1 },
};

int optimiser_states(int which)
{
	int n = 0;

	while (optimisers[which].states[n])
		n++;
	return n;
}

void optimiser_run(const struct optimiser *o, optimiser_update update,
	const struct optimiser_step *s, size_t from, size_t to, double *penalty, double *norm2)
{
	*penalty = *norm2 = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct optimiser_part *part = &s->parts[i];
		size_t at = part->at > from ? part->at : from, end = part->at + part->count;
		double sum;

		end = end < to ? end : to;
		if (at >= end)
			continue;

		sum = update(s, at, end - at, part->l2);
		*norm2 += sum;
		*penalty += o->decays ? 0 : part->l2 * sum / 2;
	}
}
