/*
 * The tensors that a layer may have in a file, their names, and where their numbers are. Names are
 * PyTorch's: "conv1.weight", "bn1.running_mean"; an optimiser's block of a weight is
 * "exp_avg/conv1.weight".
 */
#include "model/checkpoint.h"

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

void parts_digest(
	const struct net *net, float *const blocks[BLOCKS], char digest[PARTS_DIGEST_SIZE])
{
	auto_free struct iovec *pieces = xcalloc(net->n * PARTS_OF_WEIGHTS, sizeof(*pieces));
	char name[PART_NAME_SIZE];
	struct tensor t;
	size_t n = 0;

	for (int part = 0; part < PARTS_OF_WEIGHTS; part++)
		for (size_t i = 0; i < net->n; i++)
			if (part_of(&net->layers[i], part, 0, blocks, name, &t))
				pieces[n++] = (struct iovec){ (void *)t.data, tensor_size(&t) };
	memcpy(digest, "sha256:", 7);
	hash_parts(pieces, n, digest + 7);
}
