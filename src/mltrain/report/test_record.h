/* The record "test" of a log: what a network gets wrong. */
#ifndef MLT_REPORT_TEST_RECORD_H
#define MLT_REPORT_TEST_RECORD_H

#include "report/runs.h"

#include <jansson.h>

/*
 * Read {"names", "confusion", "mistakes"}; what ret had is freed first.
 *
 * Returns 0, or -EPROTO with ret empty: a confusion that is not square or has negative counts, more
 * than RUNS_CLASSES_MAX classes. Of mistakes those that do not fit are left out, and pictures that
 * are no PNG in base64 too.
 */
int test_read(const json_t *record, struct test *ret);

void test_done(struct test *t);

/* Is this the beginning of a PNG file, in base64 and nothing else? */
int test_is_png(const char *s);

#endif
