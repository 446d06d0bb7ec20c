/*
 * report: pages about runs. Reads logs of `mltrain train --log` (metrics/records.h), which are
 * untrusted, and draws them as one HTML file.
 *
 * This header: the runs in logs. A log holds one run after another. A resumed run continues the run
 * before it, from the step at which it resumed.
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

/* Limits on what untrusted logs may cost. */
#define RUNS_MAX          16                  /* of all logs together */
#define RUNS_LOG_MAX      ((size_t)512 << 20) /* bytes of a log */
#define RUNS_LINE_MAX     ((size_t)32 << 20)  /* bytes of a record */
#define RUNS_POINTS_MAX   ((size_t)4 << 20)   /* of a curve */
#define RUNS_FACTS_MAX    100
#define RUNS_TEXT_MAX     400 /* bytes of a value that is shown */
#define RUNS_CLASSES_MAX  1000
#define RUNS_MISTAKES_MAX 100
#define RUNS_PNG_MAX      ((size_t)256 << 10) /* characters of a picture in base64 */
#define RUNS_GPUS_MAX     16

/* A value over steps and time. */
struct curve {
	double *step, *time, *y; /* [n], owned; time in seconds since the program's start */
	size_t n;
};

/* A fact of a "run" record, for tables. */
struct fact {
	char *key, *value;
};

struct mistake {
	int64_t index;
	int label, guess;
	double probability; /* NAN if unknown */
	char *png;          /* valid base64; NULL: none */
};

struct test {
	int classes;
	char **names;       /* [classes] */
	int64_t *confusion; /* [classes][classes]: rows are labels, columns predictions */
	struct mistake *mistakes;
	size_t n_mistakes;
};

/* The load of a GPU. */
struct run_gpu {
	int index;
	char *name;
	struct curve percent, memory, power, temperature;
};

enum run_outcome { RUN_CUT, RUN_ENDED, RUN_INTERRUPTED, RUN_FAILED };

struct run {
	char *label, *path;
	struct fact *facts;
	size_t n_facts;
	struct curve loss, cross_entropy, batch_error, validation_error, lr, rate;
	struct curve cpu_process, cpu_node, rss;
	struct curve ranks; /* of elastic ones; its time is that of day, which runs share */
	struct run_gpu gpus[RUNS_GPUS_MAX];
	int n_gpus;
	enum run_outcome outcome;
	char *error; /* of a run that failed */
	struct test test;
	/* The latest that was told; NAN for what never was. */
	double step, steps, epochs_done, batch, test_error, images_per_second;
	double load_s, train_s, evaluate_s, checkpoint_s, total_s;
	/* For images a second from one step record to the next, and for what comes after a
	 * resumption. */
	double rate_step, rate_seconds, offset_s;
	double clock_s; /* the time of day at the program's start; NAN: unknown */
};

struct runs {
	struct run *v; /* [n], owned */
	size_t n;
	char **notes; /* what is odd, for people: "'a.jsonl' line 7: no JSON, skipped" */
	size_t n_notes;
};

void runs_done(struct runs *r);

/*
 * Add the runs of a log's text.
 *
 *   path   for labels and notes
 *
 * Skips damaged lines with a note, and unknown events and keys silently. Returns 0, -EPROTO if the
 * log has no record of a run, or -E2BIG for more than RUNS_MAX runs. What was read until then stays
 * in ret.
 */
int runs_parse(
	struct runs *ret, const char *text, size_t len, const char *path, struct mlr_error *err);

/* The value of a fact, or NULL. */
const char *run_fact(const struct run *r, const char *key);

/*
 * Read the record {"event": "test", "names", "confusion", "mistakes"}; frees what ret had first.
 *
 * Returns 0, or -EPROTO with ret empty: a confusion that is not square or has negative counts, or
 * more than RUNS_CLASSES_MAX classes. Leaves out invalid mistakes, and pictures that are not PNG in
 * base64.
 */
int run_test_read(const json_t *record, struct test *ret);

void run_test_done(struct test *t);

/* Is this the beginning of a PNG file, in base64 and nothing else? */
int run_test_is_png(const char *s);
