/*
 * The log of a run: JSON lines, one record per line. One write(2) writes each whole, so several
 * threads may write and a kill truncates none. After a record that a full disk truncated, the next
 * begins on a new line, also in a later run. Every record has "event"; values not known yet are
 * null. mltrain(1) documents the keys.
 */
#ifndef MLT_METRICS_JSONL_H
#define MLT_METRICS_JSONL_H

#include "base/base.h"

#include <jansson.h>

struct jsonl;

/* Append to a file, created if missing; NULL: to stdout. Warns if another run appends to it now,
 * since readers could not tell their records apart. Returns 0, -EEXIST for a file that holds
 * something else, or the errno of open(2). */
int jsonl_open(const char *path, struct jsonl **ret, struct mlr_error *err);

/* Write a record; takes it. A failure is kept for jsonl_close(); NULL is such a failure. */
void jsonl_put(struct jsonl *l, json_t *record);

/* Close and free; NULL is fine. Returns 0, or the first failure since it was opened. */
int jsonl_close(struct jsonl **l, struct mlr_error *err);

#endif
