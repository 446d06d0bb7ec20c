/*
 * A checkpoint made ready to predict with: what eval and predict have in common.
 */
#ifndef MLT_PREDICTOR_H
#define MLT_PREDICTOR_H

#include "trainer/backend/backend.h"
#include "trainer/model/checkpoint.h"

struct predictor_options {
	const char *checkpoint;
	const struct backend *backend;
	int threads;
	int dtype; /* enum dtype, or -1: the checkpoint's, where the backend has it */
	int batch; /* 0: that of training, so that the arithmetic is that of its own test */
};

struct predictor {
	struct checkpoint from;
	struct engine *engine;
};

#define PREDICTOR_INIT                \
	{                             \
		CHECKPOINT_INIT, NULL \
	}

/* Returns 0, or what checkpoint_read() and the backend's open() give. */
int predictor_open(const struct predictor_options *o, struct predictor *ret, struct mlr_error *err);
void predictor_done(struct predictor *p);

/* The name of a class of the network: its own, or its number in buf. */
const char *predictor_class(const struct predictor *p, int class, char buf[12]);

#endif
