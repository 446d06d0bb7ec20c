/* Internal to this room: workers on this machine (local.c), elastic runs. */
#ifndef MLR_WORK_PARTS_H
#define MLR_WORK_PARTS_H

#include "work/elastic.h"
#include "work/work.h"

/*
 * Choose processors and GPUs that the machine's other workers leave, and start the supervisor.
 * Returns as work_start().
 */
int local_start(struct store *st, struct worker *w, struct mlr_error *err);

/* In the supervisor: keep to the processors chosen, and add options for what exec limits. */
void local_limit(const struct worker *w, struct strv *options);

/* Set its status. */
void local_look(struct store *st, struct worker *w);

/* Tell the supervisor to end. Returns 0; -EPERM for one on another machine. */
int local_cancel(struct store *st, const struct worker *w, struct mlr_error *err);

/* Keep the calling process, and what it becomes, to the worker's processors and in its control
 * group. */
void local_enter(const struct worker *w);

#define WORK_KEEP_S (7 * 24 * 3600) /* files of what has ended stay so long */
#define WORK_NEW_S  10              /* for what is so young, Slurm may not have been asked yet */

/* --- elastic runs: what elastic.c and round.c share --------------------------------------- */

struct elastic_flags {
	int done, stop, failures;
	int over; /* no worker is to be added */
};

/* A path of the run's below the store, to free(). */
char *elastic_path(const char *key, const char *file);

/* Make an empty file. */
int elastic_flag(struct store *st, const char *key, const char *file, struct mlr_error *err);

void elastic_flags_read(struct store *st, const char *key, struct elastic_flags *ret);

/* Read run.json. Returns 0, -ENOENT, -EPROTO. */
int elastic_read(struct store *st, const char *key, struct elastic_run *ret, struct mlr_error *err);

/* Submit one more worker, of one node, or the one job of several. */
int elastic_grow(
	struct store *st, const struct elastic_run *run, long nodes, struct mlr_error *err);

/* Set running and waiting, oldest first; of a user's jobs, or of all that were read. */
void elastic_jobs(const struct slurm_jobs *jobs, const char *user, struct elastic_run *run);

/* Tell the run's workers that somebody, a job, sees to it now, so that they do not. Returns 0 or
 * -errno. */
int round_say(struct store *st, const char *key, const char *job, int64_t grew, int64_t shrank,
	struct mlr_error *err);

/*
 * How many workers a run is due.
 *
 *   slots  in: the units of the last look, 0: none; out: those of this one. What is less than last
 *          time counts only the second time, as squeue and sinfo tell of two moments. NULL: none
 *   runs   gets how many runs share; may be NULL
 *
 * Returns 0 or -EIO.
 */
int round_share(const struct slurm_jobs *jobs, const struct elastic_run *run, const char *partition,
	long *slots, size_t *runs, long *ret, struct mlr_error *err);

#endif
