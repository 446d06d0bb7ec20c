/*
 * metrics: the output of a run while it goes on. train_run() prints nothing; it passes on a
 * `struct train_state`. The sinks here turn it into a line for people (live.h), the tutorial's
 * lines (live.h), JSON lines (records.h) and TensorBoard's files (tfevents.h). usage.h samples the
 * machine's load.
 *
 * `struct metrics` is a run's set of sinks; metrics.c calls each, so a new one is a file and its
 * lines there. report/ makes pages of finished or growing logs. Only the rank that prints has one.
 */
#pragma once

#include "data/dataset.h"
#include "train/train.h"

#include <jansson.h>

enum metrics_format {
	METRICS_TEXT, /* a live line on stderr; the caller prints the result */
	METRICS_TF,   /* the tutorial's lines on stdout, its "Test error" included */
	METRICS_JSON, /* the records of the log on stdout */
};

/* The steps from one block of the tutorial's lines to the next; train_options has them
 * validated. */
#define METRICS_TF_EVERY 100

struct metrics_options {
	enum metrics_format format;
	int quiet;               /* no live line */
	const char *log;         /* the file to append JSON lines to; NULL: none */
	uint64_t log_every;      /* steps between two step records and scalars, > 0 */
	double load_every;       /* seconds between two samples of the load; 0: none is taken */
	const char *tensorboard; /* the directory of event files; NULL: none */
};

#define METRICS_OPTIONS_INIT                      \
	{                                         \
		.log_every = 10, .load_every = 2, \
	}

struct metrics;

/*
 * Open the sinks. This creates the files, so that a failure shows before training.
 *
 *   o   borrowed until metrics_close()
 *
 * Returns 0, or the errno of the file that can't be opened, which err names.
 */
int metrics_open(const struct metrics_options *o, struct metrics **ret, struct mlr_error *err);

/* Pass a moment to every sink, from one thread. Write failures are kept for metrics_close(). */
void metrics_tell(struct metrics *m, const struct train_state *s, const struct train_options *o,
	const struct dataset *data);

/* Write the caller's record, an object with "event", as a JSON line; takes it. */
void metrics_put(struct metrics *m, json_t *record);

/* Record that the run failed, {"event": "failed", "error": …}, and erase the live line. */
void metrics_fail(struct metrics *m, const struct mlr_error *why);

/* Close and free; NULL is fine. Returns 0, or the first failure to write since it was opened. */
int metrics_close(struct metrics **m, struct mlr_error *err);
