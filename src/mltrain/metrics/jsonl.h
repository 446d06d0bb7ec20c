/*
 * The log of a run: JSON lines, one record a line, each written whole by one write(2), so that
 * several threads may write and a kill cuts none. After one that a full disk cut, the next begins a
 * line of its own, also in a later run. Every record has "event"; keys not known yet are null.
 * mltrain(1) documents the keys.
 */
#ifndef MLT_METRICS_JSONL_H
#define MLT_METRICS_JSONL_H

#include "base/error.h"

#include <jansson.h>

struct jsonl;

/* Append to a file, made if it is not there; NULL: to stdout. That another run does so at the same
 * time is warned of, since a reader could not tell their records apart. Returns 0, -EEXIST for a
 * file that is none of records, or the errno of open(2). */
int jsonl_open(const char *path, struct jsonl **ret, struct mlr_error *err);

/* Write a record; takes it. A failure is kept for jsonl_close(); NULL is such a failure. */
void jsonl_put(struct jsonl *l, json_t *record);

/* Close and free; NULL is fine. Returns 0, or the first failure since it was opened. */
int jsonl_close(struct jsonl **l, struct mlr_error *err);

#endif
