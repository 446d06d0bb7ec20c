/*
 * Batch systems as engines of workers: each submits jobs, lists and cancels them and starts steps
 * in them. A system is a table with a file, slurm.c, and a row in work.c.
 */
#pragma once

#include "work/worker.h"

struct batch_job {
	char *id, *state; /* "4711", "RUNNING" */
	char *user;       /* its owner's number */
	char *node;       /* "" while it waits */
	char *reason;     /* why it waits or ended; NULL */
	char *partition;
	char *key, *run;        /* the worker's (struct worker) that it is, and its run's; NULL */
	long nodes, cpus, gpus; /* what it has, or wants while it waits; of each node */
	int64_t start, end;     /* seconds since the epoch; 0: not yet, or unknown */
	enum worker_status status; /* the state's */
	int runs, ends;            /* its command runs; it is about to end */
	int is_held;               /* it waits for something else than resources */
};

struct batch_jobs {
	struct batch_job *v;
	size_t n;
};

void work_jobs_done(struct batch_jobs *l);

/* The job of a worker, by its key; or NULL. */
const struct batch_job *work_job_of(const struct batch_jobs *l, const struct worker *w);

/* The resources of a node, as far as jobs of a partition may use them: those that are free in
 * service, and all, processors as often as jobs share them. */
struct batch_node {
	long free_cpus, free_gpus;
	long all_cpus, all_gpus;
	char machine[64]; /* its host name */
};

enum batch_whose { BATCH_OWN, BATCH_EVERYBODYS };

struct batch {
	const char *name;          /* "slurm" */
	const char *node_variable; /* where a job finds its node's name */

	/* Are its programs on PATH? */
	int (*is_here)(void);
	/* Map the state of a job. One that runs is WORKER_STARTING, since the system cannot tell
	 * whether the worker is ready, and an unknown word is, too. */
	enum worker_status (*status)(const char *state);
	/* Add the jobs that it knows, also those that ended some minutes ago. Returns 0 or -EIO. */
	int (*jobs)(enum batch_whose whose, struct batch_jobs *ret, struct mlr_error *err);
	/* List the nodes of a partition, NULL: of the default one: an array of *n, to free(). */
	int (*nodes)(
		const char *partition, struct batch_node **ret, size_t *n, struct mlr_error *err);
	/*
	 * Submit a worker's job: one node, one task (or worker.nodes of both), with the worker's
	 * processors, memory, GPUs, partition, name and deadline. It prints into the worker's log.
	 *
	 *   command   a line for sh
	 *   further   options of the system's beside these: "--nice=100"; NULL: none
	 *   id        the job's, to free()
	 *
	 * Returns 0, or -EIO with the system's own words.
	 */
	int (*submit)(const struct worker *w, const char *log, const char *command,
		const struct strv *further, char **id, struct mlr_error *err);
	/* End jobs. Those that have ended already are no failure. Returns 0 or -EIO. */
	int (*cancel)(const struct strv *ids, struct mlr_error *err);
	/* Send SIGTERM to the command of such jobs, and to nothing else in them. */
	int (*terminate)(const struct strv *ids, struct mlr_error *err);
	/* The words before a command that make it a step in a worker's job, with all that the job
	 * has, beside whatever runs there. tty: with a terminal of its own. */
	void (*step)(const struct worker *w, int tty, struct strv *ret);
	/* The words before a command that run it once on each node of the calling process's job. */
	void (*on_all_nodes)(const struct worker *w, struct strv *ret);
	/* The environment for its programs: without an outer job's variables, which they would
	 * obey, and the variables of a rank. */
	void (*environment)(struct strv *ret);
};
extern const struct batch batch_slurm;

/* The system of new workers: the first whose programs are here, or that says why it cannot be
 * asked. */
const struct batch *work_batch(void);

/* --- slurm.c's, for tests ------------------------------------------------------------------------
 */

/* Parse squeue's answer, of which each job's line begins with a mark: comments are any user's, and
 * may have lines of their own. */
void slurm_jobs_parse(char *text, const char *mark, struct batch_jobs *ret);

/* Parse sinfo's answer. */
void slurm_nodes_parse(char *text, struct batch_node **ret, size_t *n);
