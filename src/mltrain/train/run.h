/*
 * One run of training, as the files of this room share it: start.c makes it, save.c writes it into
 * checkpoints and takes it up from them, train.c runs it.
 */
#ifndef MLT_TRAIN_RUN_H
#define MLT_TRAIN_RUN_H

#include "data/loader.h"
#include "optimiser/optimiser.h"
#include "train/train.h"

struct run {
	const struct train_options *o;
	const struct net *net;
	const struct dataset *data;
	train_tell tell;
	void *ctx;
	struct train_state state;
	struct engine *engine;
	const struct exchange *exchange; /* NULL: alone */
	int rank, ranks, rows;           /* rows: of a batch, on this rank */
	char *digest;                    /* of the data set, owned */

	float *params, *states, *kept[OPTIMISER_STATES_MAX]; /* for checkpoints, owned */

	uint32_t *order;         /* [train_images] of this epoch: places in the data set, owned */
	struct augment *augment; /* [train_images] likewise, owned; NULL: no image is altered */
	struct loader *loader;
	uint64_t schedule_steps; /* of all epochs, whatever ends the run earlier */
	int at_once;             /* most steps a call */
	struct batch *batches;   /* [at_once], and so on */
	struct step *steps;
	struct step_result *results;
	double *sums; /* what the ranks tell one another after a call */

	uint64_t saved_step; /* of what the checkpoint's file holds; UINT64_MAX: nothing of this run
			      */
	double saved_at;     /* when it was written or tried, or when training began */
	double slowest_call; /* of engine_step(), s */
	double slowest_save; /* s */
	int halted, save_now; /* as the ranks agreed */
};

/* Check the options against the data, make the engine and everything else. r is to be run_done()
 * afterwards, after a failure too. */
int run_start(struct run *r, struct mlr_error *err);
void run_done(struct run *r);

/* Tell the callback, on rank 0. */
void run_tell(struct run *r, enum train_moment moment);

/*
 * Write a checkpoint, on rank 0. Returns 0, or what engine_get() and checkpoint_write() give.
 */
int run_save(struct run *r, const char *path, struct mlr_error *err);

/* Take up where options.resume stands: check that it is of this run, fill the engine and the
 * state. Returns 0 or -EINVAL with what contradicts what. */
int run_restore(struct run *r, struct mlr_error *err);

#endif
