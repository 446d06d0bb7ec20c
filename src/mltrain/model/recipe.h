/*
 * How a network is trained: the "train" object of its description, overridden by options. The
 * defaults are those of the reference network (TensorFlow's convolutional.py).
 */
#pragma once

#include "base/base.h"
#include "tensor/batch.h"

#include <jansson.h>

enum schedule_kind {
	SCHEDULE_CONSTANT,
	SCHEDULE_EXPONENTIAL, /* lr * decay^epoch, the same rate throughout an epoch */
	SCHEDULE_STEPS,       /* lr * decay^(number of at[] that have passed), at in epochs */
	SCHEDULE_COSINE, /* from lr to final * lr along half a cosine (Loshchilov and Hutter, 2017)
			  */
	SCHEDULE_ONE_CYCLE, /* linear from start * lr up to lr over a share `rise` of all steps,
			       then linear down to final * lr (Smith and Topin, 2018) */
};

#define SCHEDULE_STEPS_MAX 8
#define RECIPE_BATCH_MAX   65536

/* The default number of validation images; of a small data set, a tenth. */
#define RECIPE_VALIDATION_UNSAID UINT32_MAX
#define RECIPE_VALIDATION        5000

struct schedule {
	enum schedule_kind kind;
	double decay, start, final, rise;
	double at[SCHEDULE_STEPS_MAX];
	int ats;
	double warmup; /* epochs in which the rate climbs linearly from 0, before any kind but
			  one-cycle */
};

struct recipe {
	int epochs, batch; /* batch: of all ranks together */
	int optimiser;     /* optimiser/optimiser.h; SGD by default */
	double lr, momentum, l2;
	double smoothing; /* of labels: the share that goes to all classes alike */
	struct schedule schedule;
	struct augment_policy augment;
	uint32_t validation; /* training images kept for validation, or RECIPE_VALIDATION_UNSAID */
};

#define RECIPE_INIT                                                                 \
	{                                                                           \
		.epochs = 10, .batch = 64, .lr = 0.01, .momentum = 0.9, .l2 = 5e-4, \
		.validation = RECIPE_VALIDATION_UNSAID, .schedule = {               \
			.kind = SCHEDULE_EXPONENTIAL,                               \
			.decay = 0.95                                               \
		}                                                                   \
	}

/* Count the validation images among so many training images. */
uint32_t recipe_validation(const struct recipe *r, uint32_t images);

/* Return the learning rate of a step, counted from 0 over the whole run of `steps`. */
double recipe_lr(const struct recipe *r, uint64_t step, uint64_t epoch_steps, uint64_t steps);

/* Reads and writes a recipe as JSON: "train" of a description (net_file.h, mltrain-net(5)). */

/*
 * Overwrite ret with the object's members.
 *
 *   ret   holds the defaults; unchanged after a failure
 *
 * Returns 0, or -EINVAL with "train: 'lr' must be …".
 */
int recipe_parse(const json_t *object, struct recipe *ret, struct mlr_error *err);

/* Read the member "schedule" alone. Missing keys get the kind's defaults. */
int recipe_schedule_parse(const json_t *object, struct schedule *ret, struct mlr_error *err);

/* Describe a recipe as recipe_parse() reads it. The caller owns the result. */
json_t *recipe_json(const struct recipe *r);
