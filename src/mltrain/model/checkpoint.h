/*
 * A checkpoint: a network's parameters as a safetensors file that other programs read too. Tensors
 * are called LAYER.weight and LAYER.bias and have PyTorch's shapes; a dense layer behind an image
 * reads it flattened channel by channel, as torch.flatten() does. Batch norm adds
 * LAYER.running_mean and LAYER.running_var. The optimiser's tensors are called
 * velocity/LAYER.weight … (SGD), exp_avg/LAYER.weight … and exp_avg_sq/LAYER.weight … (Adam). The
 * metadata, all strings, have the rest:
 *
 *   net       its description (net_file.h)
 *   norm      {"mean": [127.5], "scale": [255]}
 *   classes   ["T-shirt", …] or []
 *   data      directory of the data set
 *   backend   the one that trained
 *   version   mltrain's
 *   recipe    JSON: how it was trained (recipe.h)
 *   weights   "sha256:…" of the bytes that come first: all tensors but the optimiser's (parts.c)
 *   state     JSON: epochs_done, step, seed, batch, ranks, threads, dtype,
 *             best_error, seconds, digest
 */
#pragma once

#include "model/net.h"
#include "optimiser/optimiser.h"
#include "tensor/batch.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"

/* --- parts.c: the tensors that a layer may have in a file --- */

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

/* --- checkpoints --- */

#define CHECKPOINT_MAX ((size_t)8 << 30) /* bytes of a file that is read */

struct checkpoint {
	struct net *net;
	float *params;                     /* [net->params] */
	float *states;                     /* [net->states] */
	int optimiser;                     /* optimiser/optimiser.h */
	float *kept[OPTIMISER_STATES_MAX]; /* its blocks, each [net->params]; NULL: the file
					      cannot be resumed from */
	struct image_norm norm;
	char **names; /* [net->classes], or NULL */
	char *backend, *data, *version;
	char *digest;                    /* of the data set (train.h), or NULL */
	char weights[PARTS_DIGEST_SIZE]; /* of params and states, when read */

	/* The state of training. */
	int epochs_done;
	int batch;          /* of all ranks */
	int ranks, threads; /* threads of one rank */
	enum dtype dtype;
	uint64_t step, seed;
	double best_error; /* the best validation error so far; negative: none */
	double seconds;    /* spent training */
	char *recipe;      /* JSON: everything that decides the rest of training, or NULL */
};

/* Check that a network's checkpoint will not be larger than CHECKPOINT_MAX, which no reader takes.
 * Returns 0 or -EFBIG. */
int checkpoint_check_size(const struct net *net, int optimiser, struct mlr_error *err);

/*
 * Fail now where checkpoint_write() would fail after hours of training: path is a directory, or its
 * directory is missing or not writable. Leaves no file behind.
 */
int checkpoint_probe(const char *path, struct mlr_error *err);

/*
 * Write a checkpoint atomically: after a failure or a kill, the old file is intact. Borrows all of
 * c.
 */
int checkpoint_write(const char *path, const struct checkpoint *c, struct mlr_error *err);

/*
 * Read a checkpoint. Release ret with checkpoint_done().
 *
 * Returns 0, or -ENOENT and kin, -EPROTO if it is damaged, or if tensors are missing, unknown or of
 * a shape that the network does not have (named), -EBADMSG if the weights have not the digest that
 * the file has for them, -ENOMEM. Errors name the file.
 */
int checkpoint_read(const char *path, struct checkpoint *ret, struct mlr_error *err);

/* Read a checkpoint from a file's bytes. */
int checkpoint_parse(const char *buf, size_t len, struct checkpoint *ret, struct mlr_error *err);

void checkpoint_done(struct checkpoint *c);

#define CHECKPOINT_METAS 10

struct checkpoint_meta {
	struct metadata entries[CHECKPOINT_METAS]; /* values owned */
	size_t n;
};

/* Make a checkpoint's metadata, as checkpoint_write() does. Release it with checkpoint_meta_done().
 */
void checkpoint_meta_make(const struct checkpoint *c, struct checkpoint_meta *ret);
void checkpoint_meta_done(struct checkpoint_meta *m);
