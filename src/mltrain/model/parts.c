#include "model/parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const part_words[] = { "weight", "bias", "running_mean", "running_var" };

int part_of(const struct layer *l, int part, int optimiser, float *const blocks[BLOCKS], char *name,
	struct tensor *ret)
{
	int is_kept = part >= PART_KEPT, nth = (part - PART_KEPT) / 2;
	int kind = is_kept ? (part - PART_KEPT) % 2 : part;
	int is_bias = kind == PART_BIAS, is_state = kind > PART_BIAS;
	float *block = blocks[is_kept ? BLOCK_KEPT + nth : is_state ? BLOCK_STATES : BLOCK_PARAMS];
	size_t count = is_state ? l->states / 2 : is_bias ? l->biases : l->weights;
	size_t at = is_state ? l->state_at + (kind == PART_VARIANCE ? count : 0)
		: is_bias    ? l->bias_at
			     : l->weight_at;

	if (!count)
		return 0;
	snprintf(name, PART_NAME_SIZE, "%s%s%s.%s",
		is_kept ? optimisers[optimiser].states[nth] : "", is_kept ? "/" : "", l->name,
		part_words[kind]);
	*ret = (struct tensor){ name,
		is_state || is_bias ? shape1((int)count) : layer_weight_shape(l),
		block ? block + at : NULL };
	return 1;
}

int part_check(const struct tensor *t, int part, struct mlr_error *err)
{
	for (size_t i = 0; i < shape_count(&t->shape); i++) {
		float v;

		memcpy(&v, (const char *)t->data + i * sizeof(v), sizeof(v));
		if (!isfinite(v) || (part == PART_VARIANCE && v < 0))
			return mlr_fail(
				err, EPROTO, "tensor '%s' has %g at %zu", t->name, (double)v, i);
	}
	return 0;
}
