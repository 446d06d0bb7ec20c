/*
 * Training, from initial weights to a tested network.
 *
 * The recipe is that of the reference network (TensorFlow's convolutional.py): the first images are
 * kept for validation, the rest is shuffled anew every epoch and cut into batches, of which a last
 * one that is not full is left out of that epoch; SGD with momentum at the rate lr *
 * lr_decay^epoch. A run is repeatable: the same seed, options, backend and number of threads give
 * the same losses.
 */
#ifndef MLT_TRAIN_TRAIN_H
#define MLT_TRAIN_TRAIN_H

#include "base/error.h"
#include "trainer/backend/backend.h"
#include "trainer/data/dataset.h"
#include "trainer/model/net.h"

#include <signal.h>
#include <stdint.h>

struct train_options {
	int epochs, batch, threads;
	uint64_t steps; /* stop after so many; 0: no limit */
	uint64_t seed;
	double lr, lr_decay, momentum, l2, dropout;
	uint32_t validation; /* training images kept for validation */
	const struct backend *backend;
	const char *checkpoint; /* NULL: none is written */
	volatile sig_atomic_t *stop; /* the number of a signal that ends training; may be NULL */
};

/* The reference recipe. */
#define TRAIN_OPTIONS_INIT                                                                        \
	{                                                                                         \
		.epochs = 10, .batch = 64, .threads = 1, .seed = 1, .lr = 0.01, .lr_decay = 0.95, \
		.momentum = 0.9, .l2 = 5e-4, .dropout = 0.5, .validation = 5000                   \
	}

enum train_moment {
	TRAIN_STARTED,      /* everything is checked and made ready; the first step comes next */
	TRAIN_STEPPED,
	TRAIN_EPOCH_ENDED,  /* validated */
	TRAIN_SAVED,        /* a checkpoint was written */
	TRAIN_INTERRUPTED,  /* *stop was set; the checkpoint, if any, is written */
	TRAIN_TESTED,       /* the end */
};

/* Where training stands. Errors are fractions of 1; those not known yet are negative. */
struct train_state {
	enum train_moment moment;
	const struct net *net;
	const struct engine *engine;
	int epoch; /* the one under way or just ended, from 1 */
	int epochs_done;
	uint64_t step, steps, epoch_steps; /* done, planned in all, planned an epoch */
	uint32_t train_images, validation_images, test_images;
	double lr;
	double cross_entropy, loss; /* of the latest batch; loss has the penalty */
	double batch_error, validation_error, test_error;
	int64_t test_wrong;
	double step_seconds, evaluate_seconds; /* sums of computing steps and errors */
};

/* Told at every moment above, from the training thread; the state is borrowed for the call. */
typedef void (*train_tell)(void *ctx, const struct train_state *state);

/*
 * Train the network on the data set and test it.
 *
 * Returns 0 (also when interrupted: see ret->moment), -EINVAL for options that do not fit the data,
 * -EDOM when the loss is no longer a number (the step is named, and the checkpoint is left as it
 * was), -ENOMEM, and what the checkpoint's writing gives.
 */
int train_run(const struct train_options *o, const struct net *net, const struct dataset *data,
	train_tell tell, void *ctx, struct train_state *ret, struct mlr_error *err);

#endif
