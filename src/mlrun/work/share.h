/*
 * How elastic runs share a partition. Data only: each run's coordinator computes it from squeue's
 * and sinfo's answers, so none has to ask another. Runs whose workers are of one size get the same
 * result; free places count in workers of the run's own size.
 */
#pragma once

#include "work/batch.h"

#define SHARE_MAX        1024 /* the largest number of workers, and of GPUs or processors for each */
#define SHARE_WEIGHT_MAX 100

/* A run's wish, as the comments of its workers' jobs show it to everybody. */
struct share_wish {
	char key[17];  /* the run's */
	long min, max; /* workers */
	long weight;   /* 2 has twice the share of 1 */
	long units;    /* GPUs for each worker, or processors where it has none */
	char kind;     /* 'g' GPUs, 'c' processors: a run shares with those of its kind */
};

/* Print "KEY:MIN:MAX:WEIGHT:g1", what a worker's job has in its comment; to free(). */
char *share_word(const struct share_wish *w);

/* Read it. Returns 0, or -EPROTO for what no mlrun writes: other users write theirs. */
int share_read(const char *word, struct share_wish *ret);

/* A run that waits or runs. Of its comment only what a run may want is believed; what it has, Slurm
 * tells. */
struct share_run {
	struct share_wish wish; /* units are those of a job's, and min is no more than its jobs */
	char *user;
	long first;                    /* its oldest job */
	long running, waiting, ending; /* workers; those of jobs that are suspended have left */
	long suspended;
	long held;  /* units, those of jobs that are about to end included */
	long share; /* workers */
};

struct share_table {
	struct share_run *v;
	size_t n;
};

void share_table_done(struct share_table *t);

/* Add a run without jobs, and return it, or the one that is there. The pointer is good until the
 * next call. */
struct share_run *share_add(struct share_table *t, const char *user, const struct share_wish *w);

/* Add the elastic runs of a kind that have jobs in a partition. Comments are any user's: a run has
 * what Slurm gave its jobs, and needs no more workers than it has jobs. */
void share_collect(
	const struct batch_jobs *jobs, const char *partition, char kind, struct share_table *t);

/* How many units nodes have free, in multiples of a worker's, and for no more than so many workers
 * each. */
long share_free(
	const struct batch_node *nodes, size_t n, const struct share_wish *w, long cpus, long most);

/*
 * Divide units: each run gets its min in the order of age, and then worker after worker goes to the
 * run that has least for its weight (D'Hondt's method), up to its max. Without min and max that is
 * floor(units * weight / sum of weights), and what is left over for those that are nearest to one
 * more.
 */
void share_divide(struct share_table *t, long units);
