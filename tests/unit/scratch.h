/*
 * A store of each test's own, and processes that do not outlive the test.
 */
#ifndef MLR_TESTS_SCRATCH_H
#define MLR_TESTS_SCRATCH_H

#include "base/error.h"
#include "store/store.h"

#include <limits.h>
#include <sys/types.h>

#define HEX_A      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MANIFEST_A "sha256:" HEX_A
#define MANIFEST_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define LAYER_1    "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define LAYER_2    "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define LAYER_3    "sha256:3333333333333333333333333333333333333333333333333333333333333333"

/* From setup() to teardown(), which are cmocka's fixtures. */
extern char dir[PATH_MAX];
extern struct store *st;
extern struct mlr_error err;

int setup(void **state);
int teardown(void **state);

/* Fail with err's words for a negative result; unless err says these words. */
void ok(int r);
void says(const char *words);

/* fork(2) of a child that is killed when the test ends, however that is. */
pid_t fork_child(void);

#endif
