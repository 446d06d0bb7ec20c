/*
 * One run of training, shared by the files of this room: start.c makes it, save.c writes it to
 * checkpoints and restores it, train.c runs it.
 */
#pragma once

#include "data/loader.h"
#include "optimiser/optimiser.h"
#include "train/train.h"

#define RUN_SUMS \
	16 /* what a call exchanges besides its steps' results: train.c's wishes and more */

struct run {
	const struct train_options *o;
	const struct net *net;
	const struct dataset *data;
	train_tell tell;
	void *ctx;
	struct train_state state;
	struct engine *engine;
	const struct exchange *exchange; /* NULL: one process */
	int rank, ranks, rows;           /* rows: images of a batch on this rank */
	int first_row;                   /* of the batch of all ranks */
	char *digest;                    /* train_digest(), owned */

	float *params, *states, *kept[OPTIMISER_STATES_MAX]; /* for checkpoints, owned */
	float *states_before; /* the step, for elastic ranks; owned */

	uint32_t *order; /* [train_images] this epoch's order: indices of the data set, owned */
	struct augment *augment; /* [train_images] in that order, owned; NULL: no augmentation */
	struct loader *loader;
	uint64_t schedule_steps; /* of all epochs, even if something ends the run earlier */
	int at_once;             /* most steps of one engine_step() */
	struct batch *batches;   /* [at_once], like the next two */
	struct step *steps;
	struct step_result *results;
	double *sums; /* exchanged among the ranks after a call */

	uint64_t saved_step;  /* of the checkpoint's file; UINT64_MAX: this run has written none */
	double saved_at;      /* time of the last attempt to save, or of the start of training */
	double slowest_call;  /* of engine_step(), in seconds */
	double slowest_save;  /* in seconds */
	int halted, save_now; /* agreed among the ranks */

	/* Elastic ranks. */
	int change;  /* agreed: the group changes now */
	int leaves;  /* this rank wants to leave, and has said so */
	int gone;    /* it has left, or the run ended without it */
	int runs;    /* training has begun */
	int started; /* TRAIN_STARTED is told: this is, or was, rank 0 */
};

/* Check the options against the data and make the engine and all else. Release r with run_done(),
 * after a failure too. */
int run_start(struct run *r, struct mlr_error *err);
void run_done(struct run *r);

/* Are the ranks elastic? */
static inline int run_is_elastic(const struct run *r)
{
	return r->o->dist && r->o->dist->elastic;
}

/* Set this rank's share of the batch by r->rank and r->ranks. */
void run_take_share(struct run *r);

/* Open an engine, or a loader, for this rank's share; close the one before first. */
int run_open_engine(struct run *r, struct mlr_error *err);
int run_open_loader(struct run *r, struct mlr_error *err);

/* Read the engine's blocks into params, kept and states; or write them. */
int run_read_engine(struct run *r, struct mlr_error *err);
int run_write_engine(struct run *r, struct mlr_error *err);

/*
 * Elastic ranks: change the group, with the other ranks (dist/elastic.h). Afterwards share, engine
 * and loader are those of the next generation, and weights and state those of the rank that has
 * come farthest; or gone, or halted, is set.
 *
 * Returns 0 or an error of elastic_regroup() or of opening.
 */
int run_regroup(struct run *r, struct mlr_error *err);

/* On rank 0 call the callback with TRAIN_STARTED, once, and for elastic ranks with the group. */
void run_tell_start(struct run *r);

/* Call the callback, on rank 0. */
void run_tell(struct run *r, enum train_moment moment);

/* Write a checkpoint, on rank 0. Returns 0 or an error of engine_get() or checkpoint_write(). */
int run_save(struct run *r, const char *path, struct mlr_error *err);

/* Check that options.resume fits this run, then restore the engine and the state from it. Returns 0
 * or -EINVAL, naming the contradiction. */
int run_restore(struct run *r, struct mlr_error *err);
