/*
 * serve: answers predictions over HTTP. The dialects (seed.c, v2.c, tfs.c) turn bodies into images
 * and logits into bodies; queue.c computes; server.h has a request's way.
 *
 * This header: the checkpoints that are served, by name. A reload replaces a checkpoint at once;
 * who has the old one keeps it until serve_model_drop().
 */
#pragma once

#include "data/image.h"
#include "train/predictor.h"

#include <stdatomic.h>

#define SERVE_NAME_MAX    64 /* characters of a model's name, with a NUL */
#define SERVE_ENGINES_MAX 4

/* A version of a checkpoint. */
struct serve_model {
	atomic_int users;
	char name[SERVE_NAME_MAX];
	int version; /* from 1; a reload counts on */
	char version_text[12];
	struct predictor predictor;
	struct image_size input; /* of an image; channels may be other than 1 and 3 */
	size_t pixels;           /* bytes of an image */
	int classes;
	/* Digest of all that decides logits: weights, structure and normalisation. */
	char key[HASH_HEX_SIZE];
	/* For batches of up to 1, 8, 64, … images: layers by oneDNN compute whole batches however
	 * few images there are. The last one takes the largest batch. */
	struct engine *_Atomic engines[SERVE_ENGINES_MAX];
	int sizes[SERVE_ENGINES_MAX], n_engines;
};

struct serve_models;

/* A model for serve_models_add() to open. */
struct serve_model_wish {
	const char *name; /* NULL: the file's, without directory and ending */
	const char *path;
};

/*
 *   use   its checkpoint is ignored, its batch is the largest; copied
 */
struct serve_models *serve_models_new(const struct predictor_options *use);
void serve_models_free(struct serve_models **m);

/* Read a checkpoint and open the engine of the largest batch. Returns 0, or an error of
 * predictor_open(), -EEXIST for a name that is taken, -EINVAL for an invalid name. */
int serve_models_add(
	struct serve_models *m, const struct serve_model_wish *wish, struct mlr_error *err);

/* Open the engines of smaller batches of all models, which the first answer need not wait for. */
int serve_models_complete(struct serve_models *m, struct mlr_error *err);

/* Read all checkpoints again. One that fails is kept as it is and reported by tell(). Returns the
 * number that failed. */
int serve_models_reload(
	struct serve_models *m, void (*tell)(const struct mlr_error *err, const char *name));

/* Take a model by its name [len], or with NULL the first; NULL: there is none of that name. */
struct serve_model *serve_models_take(struct serve_models *m, const char *name, size_t len);

/* The names, for n from 0; NULL: no more. */
const char *serve_models_name(const struct serve_models *m, size_t n);
void serve_model_drop(struct serve_model **model);

/* Return the engine that computes so many images, at most the largest batch, with least waste. */
struct engine *serve_model_engine(struct serve_model *model, int rows);
