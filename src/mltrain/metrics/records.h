/* The records of a log: a moment of training as JSON. mltrain(1) documents the keys. */
#pragma once

#include "data/dataset.h"
#include "metrics/usage.h"
#include "train/train.h"

#include <jansson.h>

/* The run and its hyper-parameters: "run". */
json_t *record_run(
	const struct train_state *s, const struct train_options *o, const struct dataset *data);

/*
 * The run's progress. Steps, epochs, interruptions and the end have the same keys.
 *
 *   rate   images a second since the run began
 */
json_t *record_state(const char *event, const struct train_state *s, double rate);

/* A change of elastic ranks: "ranks". */
json_t *record_ranks(const struct train_state *s);

/* A sample of the load: "load". */
json_t *record_load(const struct usage *l, uint64_t step);

/* --- jsonl.c: the log as JSON lines --- */

struct jsonl;

/* Append to a file, created if missing; NULL: to stdout. Warns if another run appends to it now,
 * since readers could not tell their records apart. Returns 0, -EEXIST for a file that holds
 * something else, or the errno of open(2). */
int jsonl_open(const char *path, struct jsonl **ret, struct mlr_error *err);

/* Write a record; takes it. A failure is kept for jsonl_close(); NULL is such a failure. */
void jsonl_put(struct jsonl *l, json_t *record);

/* Close and free; NULL is fine. Returns 0, or the first failure since it was opened. */
int jsonl_close(struct jsonl **l, struct mlr_error *err);
