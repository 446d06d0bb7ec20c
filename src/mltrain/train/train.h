/*
 * Training, from initial weights or from where a checkpoint stands, to a tested network.
 *
 * The first training images are kept for validation, the rest is shuffled anew every epoch and cut
 * into batches. An epoch leaves out a last batch that is not full. The recipe has the optimiser and
 * its rate. A run is repeatable: the same seed, options, backend, ranks and number
 * of threads give the same losses, in one go or resumed.
 *
 * With several ranks (options.dist) every rank calls train_run() alike. Each computes its rows of
 * every batch and its part of every evaluation; only rank 0 writes files and calls the callback. A
 * signal or a limit that one rank sees ends all at the same step.
 *
 * Elastic ranks (dist/elastic.h) come and go between steps; the batch stays and is divided anew. A
 * signal has its rank leave; that which has all ranks leave ends training.
 */
#pragma once

#include "backend/backend.h"
#include "data/dataset.h"
#include "dist/dist.h"
#include "model/checkpoint.h"
#include "model/recipe.h"

/* --- evaluate.c: tests a network on labelled images, counts its mistakes, keeps the worst --- */

#define EVALUATION_MISTAKES 24
#define EVALUATION_CLASSES  1024 /* with more there is no confusion matrix */

struct mistake {
	uint32_t index; /* of the image in its set */
	uint16_t label, guess;
	float probability; /* of the guess, says the network */
};

struct evaluation {
	uint32_t count;
	int64_t wrong;
	double cross_entropy; /* mean */
	int classes;
	uint32_t *confusion; /* [label][guess] counts images, owned; NULL: without details or above
				EVALUATION_CLASSES */
	struct mistake mistakes[EVALUATION_MISTAKES]; /* the highest probability first */
	int mistaken;                                 /* number of mistakes[] */
};

struct evaluation_of {
	struct engine *engine;
	const struct dataset *data;
	const struct image_set *set; /* one of data's */
	uint32_t count;              /* tests the first count images */
	int classes;                 /* of the network */
	int threads;                 /* decode images that are not in memory */
	int details;                 /* fill in confusion and mistakes too */
	struct dist *dist; /* each rank tests a part, all get the sums; NULL: one process */
	const volatile sig_atomic_t *stop; /* nonzero: end early; may be NULL */
};

/*
 * Predict the images and count mistakes. All ranks must call it alike; only rank 0 gets mistakes[].
 *
 *   ret   after success, release it with evaluate_done()
 *
 * Returns 0, -EINTR if a rank was stopped, or an error of engine_predict() or loader_take().
 */
int evaluate(const struct evaluation_of *what, struct evaluation *ret, struct mlr_error *err);
void evaluate_done(struct evaluation *e);

/* --- training --- */

struct train_options {
	struct recipe recipe; /* its batch is shared by all ranks */
	enum dtype dtype;
	int threads; /* of this rank */
	int deterministic;
	uint64_t steps; /* end after this step, counted from the first run; 0: no limit */
	uint64_t seed;
	uint64_t
		validate_every; /* N: validate after the steps 1, 1 + N, 1 + 2N, … too; 0: do not */
	double target_accuracy; /* end after an epoch that reaches it, in [0, 1]; 0: never */
	double max_seconds;     /* end within this time after `started`; 0: no limit */
	double started;         /* on the monotonic clock, in seconds */
	const struct backend *backend;
	struct dist *dist; /* NULL: one process */

	/* If these two files are there and this run does not resume from them, they become FILE~.
	 */
	const char *checkpoint; /* written after every epoch and at the end; NULL: no file */
	const char
		*best; /* written when the validation error is the lowest so far; NULL: no file */
	uint64_t save_steps; /* write the checkpoint every so many steps too; 0: do not */
	double save_seconds; /* or after so many seconds; 0: do not */
	const struct checkpoint *resume; /* continue from it; NULL: from the start */
	int resume_elsewhere;            /* resume was not read from `checkpoint` */

	int tell_weights; /* train_state.params is set at the start and after every epoch */

	volatile sig_atomic_t *stop; /* the number of a signal that ends training; may be NULL */
	volatile sig_atomic_t
		*save; /* nonzero: write the checkpoint now, then clear it; may be NULL */
};

#define TRAIN_OPTIONS_INIT                                      \
	{                                                       \
		.recipe = RECIPE_INIT, .threads = 1, .seed = 1, \
	}

enum train_moment {
	TRAIN_STARTED, /* all is checked and ready; the first step is next */
	TRAIN_STEPPED,
	TRAIN_VALIDATED,   /* within an epoch (validate_every), after TRAIN_STEPPED */
	TRAIN_EPOCH_ENDED, /* validated */
	TRAIN_SAVED,       /* a checkpoint was written */
	TRAIN_REGROUPED,   /* elastic ranks: the group has changed */
	TRAIN_INTERRUPTED, /* by a signal or max_seconds; the checkpoint, if any, is written */
	TRAIN_LEFT,        /* elastic ranks: this one has left, and the others go on; not told */
	TRAIN_TESTED,      /* the end */
};

/* The state of training. Errors are in [0, 1]; those not known yet are negative. */
struct train_state {
	enum train_moment moment;
	const struct net *net;
	const struct engine *engine;
	int ranks;
	uint32_t generation;         /* of elastic ranks; 0: others */
	int joined, left, lost;      /* TRAIN_REGROUPED: ranks */
	double pause_seconds;        /* TRAIN_REGROUPED: between two steps */
	int epoch;                   /* the current or just ended one, from 1 */
	uint64_t steps, epoch_steps; /* planned in all, and an epoch */
	uint64_t first_step;         /* where this process began: 0 unless resumed */
	uint32_t train_images, validation_images, test_images;
	int64_t test_wrong;
	double evaluate_seconds, checkpoint_seconds; /* total times */

	/* The progress that an elastic rank takes over with the weights, as it lies here, up to
	 * step_seconds. */
	uint64_t step;
	/* Of the epoch so far: how many images steps were made with, and a digest of which one at
	 * which place of the epoch; it depends neither on the ranks nor on their shares. */
	uint64_t epoch_samples, epoch_indices;
	int epochs_done, reached; /* reached: the target accuracy is */
	double lr;
	double cross_entropy, loss; /* of the latest batch; loss has the penalty */
	double batch_error, validation_error, best_error, test_error;
	double validation_cross_entropy; /* mean, with validation_error */
	double step_seconds;             /* total time, that of resumed runs included */

	/* TRAIN_STARTED, TRAIN_EPOCH_ENDED: [net->params], if options.tell_weights; borrowed. */
	const float *params;
	int signal;        /* TRAIN_INTERRUPTED: its number, 0: max_seconds */
	const char *saved; /* TRAIN_SAVED: the file; borrowed */
	/* TRAIN_STARTED: files of an earlier run that are FILE~ now; else NULL. */
	const char *kept_checkpoint, *kept_best;
	const struct evaluation *test; /* TRAIN_TESTED: details; borrowed for the call */
};

/* Called at every moment above, in the training thread; the state is borrowed for the call. */
typedef void (*train_tell)(void *ctx, const struct train_state *state);

/*
 * Train the network on the data set and test it.
 *
 * A checkpoint that cannot be written during training is a warning, since the one before stays and
 * the disk may have room later. At the end it is an error.
 *
 * Returns 0 (also when interrupted: see ret->moment), -EINVAL for options that do not fit the data
 * or the checkpoint to go on from, -EDOM when the loss is no longer a number (the step is named,
 * and the checkpoint stays as it was), -ENOMEM, -EIO if another rank failed, or an error of writing
 * the checkpoint.
 */
int train_run(const struct train_options *o, const struct net *net, const struct dataset *data,
	train_tell tell, void *ctx, struct train_state *ret, struct mlr_error *err);

/*
 * Read a checkpoint on every rank. Rank 0 reads the file and broadcasts it, because the file may be
 * on a disk of its node.
 *
 *   ret   after success, release it with checkpoint_done()
 *
 * Returns 1, 0 if the file does not exist, or an error of checkpoint_read(), the same on all ranks;
 * -EIO if another rank failed.
 */
int train_read_checkpoint(
	const char *path, struct dist *d, struct checkpoint *ret, struct mlr_error *err);

/* Hash a data set's counts, sizes, labels and first image, which tells it from others without
 * reading all its bytes. Returns hexadecimal text to free(). */
char *train_digest(const struct dataset *d);
