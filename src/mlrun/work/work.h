/*
 * work: many containers at once. A worker is a container on one node, started to be used by others
 * (mlrun-rsh, mpirun) or to run a command of its own: a one-node job of Slurm's, or a process here.
 *
 * Nothing of mlrun's runs between a start and the next command: the state lies in files in the
 * store (worker.h) and in Slurm. A batch system that runs workers is a table with a file
 * (batch.h): slurm.c; workers on this machine are local.c's.
 */
#pragma once

#include "store/store.h"
#include "work/worker.h"

/*
 * Start one worker. Call it for each.
 *
 *   local    on this machine even if there is Slurm
 *   w        what is wanted: name, image, partition, options, command, cpus, gpus, memory,
 * deadline; gets the rest. options are mlrun exec's, "--volume=/data", without --cpus and --memory
 *   further  sbatch's options; NULL: none
 *
 * Returns 0; -EINVAL, -ENODEV or -EBUSY for what this machine cannot give; -EIO with sbatch's
 * words. A failed start leaves nothing.
 */
int work_start(struct store *st, int local, struct worker *w, const struct strv *further,
	struct mlr_error *err);

/* Warn of a store on a file system of this machine's own, where the partition (NULL: the default
 * one) has other machines and nothing exports it to them. */
void work_look_at_store(struct store *st, const char *partition);

/* Can the limits of a started worker be kept? Returns 0, or -ENOTSUP and the like with a hint for
 * one on this machine whose memory nothing limits. */
int work_limits_check(const struct worker *w, struct mlr_error *err);

/* List the caller's workers in a store, with their status. Removes the files of those that ended
 * a week ago. Returns 0; -EIO if Slurm has workers of it and does not answer. */
int work_list(struct store *st, struct worker_list *ret, struct mlr_error *err);

enum work_until { WORK_READY, WORK_DONE };

/*
 * Wait until all of the list are ready or have ended (WORK_READY), or have ended (WORK_DONE).
 * Reads files often, and asks Slurm every two seconds.
 *
 *   seconds  -1: no limit
 *
 * Returns 0, -ETIMEDOUT, -EIO.
 */
int work_await(struct store *st, struct worker_list *l, enum work_until until, double seconds,
	struct mlr_error *err);

/* End workers, and wait until they are gone. Returns 0; -EPERM for one on another machine. */
int work_stop(struct store *st, struct worker_list *l, struct mlr_error *err);

/* The words that run a command in a worker's container: add the command. The calling process shall
 * become it, as it moves to the limits of a worker on this machine. It must be WORKER_RUNNING.
 *
 *   tty  with a terminal
 *   env  gets the command's environment
 */
void work_enter(const struct worker *w, int tty, struct strv *ret, struct strv *env);

/* Find a worker by id, host name, or by its node's name or address if it is the only one there that
 * runs. Returns its index; -ENOENT, -EEXIST for several. */
int work_find(const struct worker_list *l, const char *text, struct mlr_error *err);

/*
 * How long to wait before Slurm is asked again. Sites limit the rate of squeue(1).
 *
 *   last         what this returned before; 0: nothing
 *   first, most  milliseconds
 *
 * Returns first, and then twice as many each time, up to most.
 */
int64_t work_later(int64_t last, int64_t first, int64_t most);

/*
 * Supervise a worker, in its job or in a process of its own: start its container, end it at its
 * deadline and with the job, and write what happens into its files. (worker_hold.c)
 *
 *   status  gets the exit status to end with
 */
int work_hold(struct store *st, const char *key, int *status, struct mlr_error *err);

/* mlrun's own path, to free(). */
char *work_program(void);

/* --- for this room: workers on this machine (local.c) --------------------------------------------
 */

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
