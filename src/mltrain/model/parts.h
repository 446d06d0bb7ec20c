/*
 * The tensors that a layer may have in a file, their names, and where their numbers are. Names are
 * PyTorch's: "conv1.weight", "bn1.running_mean"; an optimiser's block of a weight is
 * "exp_avg/conv1.weight".
 */
#ifndef MLT_MODEL_PARTS_H
#define MLT_MODEL_PARTS_H

#include "model/net.h"
#include "optimiser/optimiser.h"
#include "tensor/safetensors.h"

enum part {
	PART_WEIGHT,
	PART_BIAS,
	PART_MEAN,
	PART_VARIANCE,
	PART_KEPT, /* + 2 * n: the optimiser's nth block, of the weight; + 1: of the bias */
};
#define PARTS_OF_WEIGHTS ((int)PART_KEPT)

/* The parts' names, which follow the layer's name and a dot: of the first PARTS_OF_WEIGHTS parts.
 */
extern const char *const part_words[PARTS_OF_WEIGHTS];

/* The blocks of floats: [net->params], [net->states], then the optimiser's. NULL: not there. */
enum part_block { BLOCK_PARAMS, BLOCK_STATES, BLOCK_KEPT };
#define BLOCKS (BLOCK_KEPT + OPTIMISER_STATES_MAX)

#define PART_NAME_SIZE (LAYER_NAME_MAX + sizeof("exp_avg_sq/.running_mean"))

/*
 * Describe one tensor of a layer.
 *
 *   optimiser   optimiser/optimiser.h; matters to parts from PART_KEPT on
 *   name        [PART_NAME_SIZE], to which the tensor's refers
 *
 * Returns 0 if the layer has no such tensor. Where the block is NULL, the tensor's data is.
 */
int part_of(const struct layer *l, int part, int optimiser, float *const blocks[BLOCKS], char *name,
	struct tensor *ret);

/* Check the numbers of an untrusted file's tensor of floats: all are finite, and no variance is
 * negative. Returns 0, or -EPROTO naming the tensor and the place. */
int part_check(const struct tensor *t, int part, struct mlr_error *err);

#define PARTS_DIGEST_SIZE (sizeof("sha256:") - 1 + HASH_HEX_SIZE)

/*
 * Digest a network's weights, to "sha256:<hex>": of the floats of all layers' weights, in the order
 * of layers, then of all biases, running means and running variances. These are the bytes with
 * which a checkpoint's data begins, so that networks whose weights are equal have equal digests,
 * whatever the optimiser has kept.
 */
void parts_digest(
	const struct net *net, float *const blocks[BLOCKS], char digest[PARTS_DIGEST_SIZE]);

#endif
