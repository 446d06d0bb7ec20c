/*
 * Reads the options of mltrain train. An option overrides the checkpoint to resume from, which
 * overrides the network's description.
 */
#pragma once

#include "dist/elastic.h"
#include "metrics/metrics.h"
#include "model/recipe.h"
#include "train/train.h"

/* Values of a recipe that options may give: bits of train_args.given. */
enum given {
	GIVEN_EPOCHS = 1 << 0,
	GIVEN_BATCH = 1 << 1,
	GIVEN_LR = 1 << 2,
	GIVEN_MOMENTUM = 1 << 3,
	GIVEN_L2 = 1 << 4,
	GIVEN_SCHEDULE = 1 << 5,
	GIVEN_WARMUP = 1 << 6,
	GIVEN_AUGMENT = 1 << 7,
	GIVEN_VALIDATION = 1 << 8,
	GIVEN_SEED = 1 << 9,
	GIVEN_DTYPE = 1 << 10,
	GIVEN_BACKEND = 1 << 11,
	GIVEN_NET = 1 << 12,
	GIVEN_NORMALIZE = 1 << 13,
	GIVEN_THREADS = 1 << 14,
	GIVEN_OPTIMISER = 1 << 15,
	GIVEN_SMOOTHING = 1 << 16,
};

#define ELASTIC_RANKS 4 /* --max-ranks, if not given */

enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT };

enum normalize { NORMALIZE_FIXED, NORMALIZE_DATASET };

struct train_args {
	struct train_options train; /* its recipe has the given options */
	struct metrics_options metrics;
	unsigned given;
	const char *data, *net;
	struct shape input; /* of --input; rank 0: not given */
	size_t data_memory; /* bytes; 0: not given */
	double dropout;     /* < 0: not given */
	enum lr_scale lr_scale;
	enum normalize normalize;
	int wants_resume;
	const char *resume; /* its file */
	int usr1_continues;
	int verbose;
	struct elastic_options elastic; /* where NULL: fixed ranks */
};

/* Read the command line. Errors end the program. */
void train_args_parse(int argc, char **argv, struct train_args *ret);

/*
 * Override a recipe by the given options. If they change its batch, --lr-scale adapts the rate
 * (Goyal et al., "Accurate, Large Minibatch SGD", 2017), with a warm-up over the first twentieth of
 * the epochs, at most five, unless there already is one.
 *
 * Returns 0, or -EINVAL for a warm-up before a schedule that cannot have one.
 */
int train_args_apply(const struct train_args *a, struct recipe *r, struct mlr_error *err);
