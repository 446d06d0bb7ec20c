/* The record "test" of a log: a network's mistakes. */
#ifndef MLT_REPORT_TEST_RECORD_H
#define MLT_REPORT_TEST_RECORD_H

#include "report/runs.h"

#include <jansson.h>

/*
 * Read {"names", "confusion", "mistakes"}; frees what ret had first.
 *
 * Returns 0, or -EPROTO with ret empty: a confusion that is not square or has negative counts, or
 * more than RUNS_CLASSES_MAX classes. Leaves out invalid mistakes, and pictures that are not PNG in
 * base64.
 */
int test_read(const json_t *record, struct test *ret);

void test_done(struct test *t);

/* Is this the beginning of a PNG file, in base64 and nothing else? */
int test_is_png(const char *s);

#endif
