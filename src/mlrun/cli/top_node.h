/* How busy the node is, and the job on it: its processors and its memory. */
#ifndef MLR_CLI_TOP_NODE_H
#define MLR_CLI_TOP_NODE_H

#include <stddef.h>
#include <stdint.h>

/* -1 is what is not told. */
struct top_node {
	int busy; /* percent of all cores' time since the sample before */
	size_t n_cores;
	double load;                       /* of a minute, getloadavg(3) */
	int64_t memory_used, memory_total; /* bytes */
	/* The job's control group; name NULL: there is none. */
	const char *job; /* "job_1234" */
	int job_cores;   /* that this process may run on */
	double job_busy; /* cores' worth of time since the sample before */
	int64_t job_memory_used, job_memory_limit;
};

struct top_node_watch;

/*
 * Take the first reading.
 *
 *   root    "/" but for tests
 *   is_job  the environment tells of a job: then the group that this process is in is the job's
 * when no part of its path says so (Slurm: job_1234)
 */
struct top_node_watch *top_node_watch_new(const char *root, int is_job);
void top_node_watch_free(struct top_node_watch *w);

/* What has happened since the last call. ret's name is w's. */
void top_node_next(struct top_node_watch *w, struct top_node *ret);

#endif
