/*
 * Slurm as the engine of workers: submits one-node jobs, lists and cancels them, starts steps in
 * them. Every function runs Slurm's own programs as the user and passes their words on.
 *
 * squeue(1) is asked for fields (--format), not for --json: the layout of its JSON changes with
 * Slurm's versions (data_parser), and 22.05 puts all users' jobs into it whatever is asked for,
 * with 3.6 kB a job in place of 54 bytes.
 */
#ifndef MLR_WORK_SLURM_H
#define MLR_WORK_SLURM_H

#include "base/error.h"
#include "base/strv.h"
#include "work/worker.h"

#include <stddef.h>
#include <stdint.h>

/* Is sbatch(1) on PATH? */
int slurm_is_here(void);

struct slurm_job {
	char *id, *state; /* "4711", "RUNNING" */
	char *user;       /* its owner's number */
	char *node;       /* "" while it waits */
	char *reason;     /* why it waits or ended; "None" */
	char *partition;
	char *comment; /* of a worker: "mlrun-worker:KEY", of an elastic run's with " RUN" */
	long nodes, cpus, gpus; /* what it has, or wants while it waits; of each node */
	int64_t start, end;     /* seconds since the epoch; 0: not yet, or unknown */
};

struct slurm_jobs {
	struct slurm_job *v;
	size_t n;
};

#define SLURM_JOBS_INIT \
	{               \
		NULL, 0 \
	}
void slurm_jobs_done(struct slurm_jobs *l);

enum slurm_whose { SLURM_OWN, SLURM_EVERYBODYS };

/*
 * List the jobs that Slurm knows, those that ended within its MinJobAge included.
 *
 * Returns 0, or -EIO with squeue's words: no answer, wrong configuration.
 */
int slurm_jobs_read(enum slurm_whose whose, struct slurm_jobs *ret, struct mlr_error *err);

/* Parse squeue's answer, of which each job's line begins with a mark: comments are any user's, and
 * may have lines of their own. For tests. */
void slurm_jobs_parse(char *text, const char *mark, struct slurm_jobs *ret);

/* The run in the comment of an elastic run's worker (struct worker's run), or NULL. */
const char *slurm_job_run(const struct slurm_job *j);

/* The job whose comment is that of a worker, or NULL. */
const struct slurm_job *slurm_job_of(const struct slurm_jobs *l, const struct worker *w);

/* Map a state of squeue(1). A running job is WORKER_STARTING, since Slurm cannot tell
 * whether the worker is ready. An unknown word is WORKER_STARTING, too. */
enum worker_status slurm_status(const char *state);

/*
 * Submit a worker's job: one node, one task (or worker.nodes of both), with the worker's
 * processors, memory, GPUs, partition, name and deadline. The job runs `command`, and prints into
 * the worker's log.
 *
 *   command   a line for sh
 *   further   options for sbatch(1) beside these: "--nice=100"
 *   id        the job's, to free()
 *
 * Returns 0, or -EIO with sbatch's own words.
 */
int slurm_submit(const struct worker *w, const char *log, const char *command,
	const struct strv *further, char **id, struct mlr_error *err);

/* scancel(1). Jobs that have ended already are no failure. Returns 0 or -EIO with its words. */
int slurm_cancel(const struct strv *ids, struct mlr_error *err);

/* Send SIGTERM to the command of such jobs (slurm_submit()), and to nothing else in them. */
int slurm_terminate(const struct strv *ids, struct mlr_error *err);

/* The free resources of a node, as far as jobs of a partition may use them. */
struct slurm_node {
	long free_cpus, free_gpus;
};

/*
 * Ask sinfo(1) for the nodes of a partition that are in service.
 *
 *   ret  an array of *n, to free()
 *
 * Returns 0 or -EIO with its words.
 */
int slurm_nodes_read(
	const char *partition, struct slurm_node **ret, size_t *n, struct mlr_error *err);

/* Parse sinfo's answer. For tests. */
void slurm_nodes_parse(char *text, struct slurm_node **ret, size_t *n);

/* The words before a command that run it on all nodes of the calling process's job, once each. */
void slurm_on_all_nodes(const struct worker *w, struct strv *ret);

/* The words before a command that make it a step in a worker's job, with all that the job has,
 * beside whatever runs there. tty: with a terminal of its own. */
void slurm_step(const struct worker *w, int tty, struct strv *ret);

/* The environment for Slurm's programs: without an outer job's variables, which they would obey,
 * the variables of a rank, and what narrows the answers of squeue, sinfo and scancel. */
void slurm_environment(struct strv *ret);

#endif
