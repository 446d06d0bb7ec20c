/*
 * Training, from initial weights or from where a checkpoint stands, to a tested network.
 *
 * The first training images are kept for validation, the rest is shuffled anew every epoch and cut
 * into batches, of which a last one that is not full is left out of that epoch; the optimiser and
 * its rate are the recipe's. A run is repeatable: the same seed, options, backend, ranks and number
 * of threads give the same losses, in one go or resumed.
 *
 * With several ranks (options.dist) every rank calls train_run() alike. Each computes its rows of
 * every batch, and its part of every evaluation; rank 0 alone writes files and calls back. A signal
 * or a limit that one of them sees ends all at the same step.
 */
#ifndef MLT_TRAIN_TRAIN_H
#define MLT_TRAIN_TRAIN_H

#include "base/error.h"
#include "backend/backend.h"
#include "data/dataset.h"
#include "dist/dist.h"
#include "model/checkpoint.h"
#include "model/net.h"
#include "model/recipe.h"
#include "train/evaluate.h"

#include <signal.h>
#include <stdint.h>

struct train_options {
	struct recipe recipe; /* its batch is that of all ranks */
	enum dtype dtype;
	int threads; /* of this rank */
	int deterministic;
	uint64_t steps; /* end after so many, counted from the first of all; 0: no limit */
	uint64_t seed;
	uint64_t validate_every; /* validate after the steps 1, 1 + N, 1 + 2N, … too; 0: not */
	double target_accuracy;  /* end once an epoch reaches it, a share of 1; 0: never */
	double max_seconds;      /* end in time for this, from `started` on; 0: no limit */
	double started;          /* by the monotonic clock, s */
	const struct backend *backend;
	struct dist *dist; /* NULL: alone */

	/* What these two have of a run that this one does not go on from is kept as FILE~. */
	const char *checkpoint; /* written after every epoch and at the end; NULL: none is */
	const char *best;       /* likewise when the validation error is the lowest so far */
	uint64_t save_steps;    /* write it every so many steps too; 0: not */
	double save_seconds;    /* or after so many seconds; 0: not */
	const struct checkpoint *resume; /* to go on from; NULL: from the start */
	int resume_elsewhere;            /* it was not read from the file `checkpoint` */

	volatile sig_atomic_t *stop; /* the number of a signal that ends training; may be NULL */
	volatile sig_atomic_t *save; /* not 0: write the checkpoint now, then 0; may be NULL */
};

#define TRAIN_OPTIONS_INIT                                      \
	{                                                       \
		.recipe = RECIPE_INIT, .threads = 1, .seed = 1, \
	}

enum train_moment {
	TRAIN_STARTED, /* everything is checked and made ready; the first step comes next */
	TRAIN_STEPPED,
	TRAIN_VALIDATED,   /* within an epoch, as validate_every wants it; after TRAIN_STEPPED */
	TRAIN_EPOCH_ENDED, /* validated */
	TRAIN_SAVED,       /* a checkpoint was written */
	TRAIN_INTERRUPTED, /* by a signal or max_seconds; the checkpoint, if any, is written */
	TRAIN_TESTED,      /* the end */
};

/* Where training stands. Errors are fractions of 1; those not known yet are negative. */
struct train_state {
	enum train_moment moment;
	const struct net *net;
	const struct engine *engine;
	int ranks;
	int epoch; /* the one under way or just ended, from 1 */
	int epochs_done;
	uint64_t step, steps, epoch_steps; /* done, planned in all, planned an epoch */
	uint64_t first_step;               /* where this process began: 0 unless resumed */
	uint32_t train_images, validation_images, test_images;
	double lr;
	double cross_entropy, loss; /* of the latest batch; loss has the penalty */
	double batch_error, validation_error, best_error, test_error;
	int64_t test_wrong;
	/* Sums of what each took; the first goes on from a checkpoint's. */
	double step_seconds, evaluate_seconds, checkpoint_seconds;
	int signal;        /* TRAIN_INTERRUPTED: the one that did, 0: max_seconds */
	int reached;       /* the target accuracy was */
	const char *saved; /* TRAIN_SAVED: the file; borrowed */
	/* TRAIN_STARTED: files whose weights of an earlier run are in FILE~ now; else NULL. */
	const char *kept_checkpoint, *kept_best;
	const struct evaluation *test; /* TRAIN_TESTED: all of it; borrowed for the call */
};

/* Told at every moment above, from the training thread; the state is borrowed for the call. */
typedef void (*train_tell)(void *ctx, const struct train_state *state);

/*
 * Train the network on the data set and test it.
 *
 * A checkpoint that can't be written while training goes on is a warning, since the one before
 * stays and the disk may have room later; at the end it is an error.
 *
 * Returns 0 (also when interrupted: see ret->moment), -EINVAL for options that do not fit the data
 * or the checkpoint to go on from, -EDOM when the loss is no longer a number (the step is named,
 * and the checkpoint is left as it was), -ENOMEM, -EIO when another rank failed, and what the
 * checkpoint's writing gives.
 */
int train_run(const struct train_options *o, const struct net *net, const struct dataset *data,
	train_tell tell, void *ctx, struct train_state *ret, struct mlr_error *err);

#endif
