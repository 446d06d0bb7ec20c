/*
 * The results of `mltrain load`, from the JSON that it writes (mltrain-load(1), "JSON"): untrusted,
 * one object a line. Unknown keys are ignored, missing and odd numbers are NAN. And their page:
 * numbers side by side, curves, checks.
 */
#ifndef MLT_REPORT_TRAFFIC_H
#define MLT_REPORT_TRAFFIC_H

#include "base/base.h"

#define TRAFFIC_MAX       16                  /* runs on a page */
#define TRAFFIC_BYTES_MAX ((size_t)256 << 20) /* of a file */

struct traffic {
	struct traffic_run *v; /* [n], owned */
	size_t n;
};

void traffic_done(struct traffic *t);

/* Does a file's text begin as such results do? */
int traffic_is(const char *text, size_t len);

/*
 * Add the runs of a file.
 *
 *   path   for messages, and for the name of a run that has another one's
 *
 * Returns 0, -EPROTO if a line is not the results of a run, -E2BIG above TRAFFIC_MAX.
 */
int traffic_parse(
	struct traffic *ret, const char *text, size_t len, const char *path, struct mlr_error *err);

/* Put its file behind a name that several runs have. */
void traffic_tell_apart(struct traffic *t);

/* Write the page of at least one run. */
void traffic_write(FILE *f, const struct traffic *t);

#endif
