/*
 * Reports, for people, what the elastic runs of all users do now and had in the last minutes.
 * Slurm knows it all but a program's own figures. It knows of jobs that ended within its
 * MinJobAge (slurm.conf(5); 300 s by default), so nothing has to remember them.
 */
#pragma once

#include "store/store.h"
#include "work/share.h"

#define WATCH_CELLS  20
#define WATCH_CELL_S 15 /* seconds that a cell stands for */

enum watch_state {
	WATCH_WAITS,     /* no worker runs */
	WATCH_SUSPENDED, /* none runs, and Slurm lets some go on later */
	WATCH_GROWS,     /* it is due more than run */
	WATCH_SHRINKS,   /* workers end, or more run than it is due */
	WATCH_RUNS,
};

/* "waits" and so on, indexed by enum watch_state. */
extern const char *const watch_state_names[WATCH_RUNS + 1];

struct watch_run {
	char key[17], *user;                                  /* the user's number */
	long running, waiting, ending, due, min, max, weight; /* workers */
	long held;                                            /* slots */
	enum watch_state state;
	char *reason;             /* whom or what it waits for (elastic_waits()); NULL */
	double past[WATCH_CELLS]; /* slots, the mean of each cell, oldest first */
	/* For the caller's own runs: */
	char *name;               /* NULL: another user's, or of another store */
	int64_t generation;       /* -1: unknown */
	double images_per_second; /* NAN: likewise */
};

/* The runs that share: those of a partition and of a kind (struct share_wish). */
struct watch_pool {
	char *partition, kind;
	long slots, free;
	struct watch_run *runs; /* [n], oldest first */
	size_t n;
};

struct watch {
	int64_t time; /* seconds since the epoch */
	struct watch_pool *v;
	size_t n;
};

void watch_done(struct watch *w);

/*
 * Look once: one squeue(1), and one sinfo(1) for each partition that has runs.
 *
 *   st  for the names of the caller's runs and their programs' figures; NULL: no store
 *
 * Returns 0, or -EIO with Slurm's words.
 */
int watch_read(struct store *st, struct watch *ret, struct mlr_error *err);

/* --- for tests -------------------------------------------------------------------------------- */

/* Add what a job had, up to now, to the cells of its run. */
void watch_add_past(const struct batch_job *j, char kind, int64_t now, double past[WATCH_CELLS]);

/*
 * Read the end of a log, JSON lines that mltrain(1) writes: "generation", and between
 * the last two lines with the same one, "samples" and "train_seconds". Other lines are skipped.
 */
void watch_read_log(char *text, struct watch_run *ret);
