/* Prepares a checkpoint for predicting, and reads what an engine answers. */
#pragma once

#include "backend/backend.h"
#include "model/checkpoint.h"

#define PREDICTOR_BATCH_MAX 1024 /* a stranger's file must not order memory at will */

struct predictor_options {
	const char *checkpoint;
	const struct backend *backend;
	int threads;
	int dtype; /* enum dtype, or -1: the checkpoint's if the backend has it */
	int batch; /* 0: that of training, which repeats the arithmetic of the training's own test
		    */
};

struct predictor {
	struct checkpoint from;
	struct engine *engine;
};

/* Returns 0 or an error of checkpoint_read() or the backend's open(). */
int predictor_open(const struct predictor_options *o, struct predictor *ret, struct mlr_error *err);
void predictor_done(struct predictor *p);

/* Open a further engine with the weights of p, for batches of o->batch images; to engine_close().
 * Fails like predictor_open(). */
int predictor_engine(const struct predictor_options *o, const struct predictor *p,
	struct engine **ret, struct mlr_error *err);

/* Return the name of a class of the network; without one, its number, written to buf. */
const char *predictor_class(const struct predictor *p, int class, char buf[12]);

/* Are all logits [n] finite? */
int predictor_is_finite(const float *logits, int n);

/* Compute the probabilities [n] of an image's logits [n]: softmax, without overflow. */
void predictor_probabilities(const float *logits, int n, double *ret);
