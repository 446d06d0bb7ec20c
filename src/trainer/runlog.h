/*
 * The log of a run: a file of JSON lines, one record a line, appended, each written whole by one
 * write(2). Every record has "event"; keys not known yet are null. mltrain(1) documents the keys.
 */
#ifndef MLT_RUNLOG_H
#define MLT_RUNLOG_H

#include "base/error.h"
#include "trainer/train/train.h"

struct runlog;

/*
 * Open a log, made if it is not there.
 *
 *   every   steps between two step records, > 0
 *
 * Returns 0 and a log to runlog_close(), or the errno of open(2).
 */
int runlog_open(const char *path, uint64_t every, struct runlog **ret, struct mlr_error *err);

/* Write the record of a moment (none for TRAIN_SAVED). A failure is kept for runlog_close(). */
void runlog_tell(struct runlog *l, const struct train_state *s, const struct train_options *o,
	const char *data_dir);

/* Write the record of a failure: {"event":"failed","error":…}. */
void runlog_fail(struct runlog *l, const struct mlr_error *why);

/* Close and free; NULL is fine. Returns 0, or the first failure since it was opened. */
int runlog_close(struct runlog *l, struct mlr_error *err);

#endif
