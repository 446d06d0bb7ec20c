/*
 * A directory of each test's own, outer/, with tree/ to unpack layers into, a file "outside" and a
 * directory "target/" that no layer may touch; and a layer's record.
 */
#ifndef MLR_TESTS_OUTER_H
#define MLR_TESTS_OUTER_H

#include "base/error.h"
#include "layer/record.h"
#include "layer/unpack.h"
#include "tar.h"

#include <limits.h>

/* From setup() to teardown(), which are cmocka's fixtures. teardown() fails if anything in outer/
 * but tree/ has changed. */
extern char outer[PATH_MAX];
extern int tree, record;
extern struct layer_result result;
extern struct mlr_error err;
extern const char *trying; /* failures name it; "layer" after setup() */

int setup(void **state);
int teardown(void **state);

/* Tear down and set up, between the cases of one test. */
void start_again(void);

/* Unpack into tree/. What can be unpacked can be written again from its record, bit for bit. */
int unpack_as(struct tar *t, enum oci_compression comp);

/* Fail unless err says these words. */
void says(const char *words);

#endif
