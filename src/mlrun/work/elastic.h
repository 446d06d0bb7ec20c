/*
 * elastic: runs whose number of workers changes. A run is a set of workers (worker.h), each a
 * one-node job that runs the same command; Slurm's jobs keep their size. Nobody but the runs
 * themselves decides: in the run's oldest job a process, the coordinator (worker_hold.c starts one
 * in each job), asks Slurm every two seconds who wants what, ends workers that others are due, and
 * submits more where there is room (share.h).
 *
 * A run as its files in the store show it:
 *
 *   elastic/<key>/run.json    what was asked for; the starter's
 *   elastic/<key>/round       the coordinator's last look, so that the others need not ask Slurm:
 *                             {"round": random, "job": its job, "grew": seconds, "shrank": seconds}
 *                             ("start" for a job: the starter submits the first workers)
 *   elastic/<key>/done        a worker's command has ended with 0, so the run is over
 *   elastic/<key>/stop        somebody wants it to end
 *   elastic/<key>/next        of a run that is one job: {"nodes": N}, of the job after this one
 *   elastic/<key>/failed-KEY  worker KEY failed soon after its start
 *   elastic/<key>/left-KEY    the job of worker KEY is suspended; the coordinator's
 *   elastic/<key>/shared/     for the command: a directory that all its workers have, with `meet`
 *                             and `log`, the program's own; `meet.waits`, whom its ranks wait for;
 *                             and `meet.left-KEY`, for ranks, that do not wait for those of KEY
 */
#pragma once

#include "store/store.h"
#include "work/share.h"

enum elastic_status {
	ELASTIC_WAITING,   /* no worker runs, some wait */
	ELASTIC_SUSPENDED, /* none runs, and the batch system lets some go on later */
	ELASTIC_RUNNING,
	ELASTIC_SUCCEEDED, /* a worker's command ended with 0 */
	ELASTIC_FAILED,    /* workers failed as soon as they had begun */
	ELASTIC_STOPPED,
	ELASTIC_LOST, /* no worker is left, for an unknown reason */
};

/* "waiting" and so on, indexed by enum elastic_status. */
extern const char *const elastic_status_names[ELASTIC_LOST + 1];

struct elastic_run {
	struct share_wish share;
	struct worker wish; /* each worker's; not started */
	struct strv sbatch; /* sbatch's options */
	long hold;          /* seconds between growing and shrinking, and the other way round */

	/* Set by elastic_list(): */
	struct strv running, waiting; /* jobs; the first that runs is the coordinator's */
	struct strv suspended;        /* jobs that have left until Slurm lets them go on */
	long workers;                 /* of those that run or wait */
	long ending;                  /* jobs until Slurm has freed their nodes */
	enum elastic_status status;
	char *reason; /* whom or what it waits for, or why it has ended; NULL: nothing is known */
};

#define ELASTIC_RUN_INIT            \
	{                           \
		.wish = WORKER_INIT \
	}
void elastic_run_done(struct elastic_run *run);

struct elastic_list {
	struct elastic_run *v; /* oldest first */
	size_t n;
};

void elastic_list_done(struct elastic_list *l);

/*
 * Can its command not change while it runs (--mode=requeue)? Then the run is one job of as many
 * nodes as it has workers. To change, its command is warned, has time to save its state, and is
 * ended, and the job's last act is to submit another of the new size.
 */
int elastic_is_one_job(const struct elastic_run *run);

/*
 * Start a run: submit as many workers as it is due at once, and as its min at least.
 *
 *   run  wish, sbatch, hold, and share but for key, kind and units
 *
 * Returns 0; -ENOSYS without Slurm; -EINVAL; -EIO with sbatch's words. A failed start leaves
 * nothing.
 */
int elastic_start(struct store *st, struct elastic_run *run, struct mlr_error *err);

/* Whom or what a run waits for, of the jobs of a user's (NULL: all that were read) and, where st is
 * not NULL, of what the program's ranks say; to free(), or NULL. */
char *elastic_waits(struct store *st, const struct batch_jobs *jobs, const char *user,
	const struct share_wish *run);

/* List the caller's runs in a store. Removes the files of those that ended a week ago. Returns 0 or
 * -EIO if Slurm does not answer. */
int elastic_list(struct store *st, struct elastic_list *ret, struct mlr_error *err);

/* End a run: its commands get SIGTERM, or the warning of one that cannot change. Waits until its
 * workers are gone; those that are not half a minute after their time are killed. Returns 0, -EIO,
 * -ETIMEDOUT. */
int elastic_stop(struct store *st, const struct elastic_run *run, struct mlr_error *err);

/* The absolute path of the rendezvous file that the command gets as $MLRUN_ELASTIC; to free(). */
char *elastic_meet(const struct store *st, const char *key);

/* --- for this room: files and jobs ------------------------------------------------------------ */

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
void elastic_jobs(const struct batch_jobs *jobs, const char *user, struct elastic_run *run);

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
int round_share(const struct batch_jobs *jobs, const struct elastic_run *run, const char *partition,
	long *slots, size_t *runs, long *ret, struct mlr_error *err);

/* --- for this room: what a worker's supervisor does for its run ------------------------------ */

/* Add the options of exec that the command needs for its run. */
void elastic_add_options(const struct store *st, const struct worker *w, struct strv *options);

/*
 * The node of the oldest worker, where programs can meet that need an address, to free(); NULL if
 * Slurm does not tell. Workers that start later end earlier.
 */
char *elastic_host(const struct worker *w);

/* Is the run over, so that a worker that comes late has nothing to do? */
int elastic_is_over(struct store *st, const struct worker *w);

/* Was the job suspended, so that its command has been left out and shall begin again? */
int elastic_comes_back(struct store *st, const struct worker *w);

/* Start a process that is the coordinator while its job is the run's oldest. It ends with its
 * parent. Returns its pid or -errno. */
pid_t elastic_keep(struct store *st, const struct worker *w);

/* After a signal to end: submit the run's next job, if its coordinator has asked for one. */
void elastic_follow(struct store *st, const struct worker *w);

/* The command has ended by itself. If it failed, sees to a successor where no other worker can. */
void elastic_ended(struct store *st, const struct worker *w, int status, int64_t lived_s);
