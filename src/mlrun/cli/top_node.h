/* Measures how busy the node and the job on it are: processors and memory. */
#pragma once

#include "base/base.h"

/* -1: unknown. */
struct top_node {
	int busy; /* percent of all cores' time since the sample before */
	size_t n_cores;
	double load;                       /* over a minute, getloadavg(3) */
	int64_t memory_used, memory_total; /* bytes */
	/* The job's control group; job NULL: none. */
	const char *job; /* "job_1234" */
	int job_cores;   /* cores that this process may run on */
	double job_busy; /* cores used since the last sample */
	int64_t job_memory_used, job_memory_limit;
};

struct top_node_watch;

/*
 * Take the first reading.
 *
 *   root    "/" but in tests
 *   is_job  in a job: if no part of the path of this process's group shows the job (Slurm:
 *           job_1234), the group itself is the job's
 */
struct top_node_watch *top_node_watch_new(const char *root, int is_job);
void top_node_watch_free(struct top_node_watch *w);

/* Measure since the last call. ret->job belongs to w. */
void top_node_next(struct top_node_watch *w, struct top_node *ret);
