/* How many virtual users there are at which time, as k6's option "stages" says it. */
#ifndef MLT_LOAD_STAGES_H
#define MLT_LOAD_STAGES_H

#include "base/error.h"

#include <stddef.h>

#define STAGES_MAX       100
#define STAGES_USERS_MAX 100000
#define STAGES_S_MAX     604800.0 /* a week */

/* Within a stage the number goes in a straight line from what it was to this. */
struct stage {
	double seconds;
	unsigned users;
};

/* Begins with one user, as in k6, unless the first stage takes no time. */
struct stages {
	struct stage v[STAGES_MAX];
	size_t n;
};

/*
 * Parse a duration (base/duration.h) of at most STAGES_S_MAX seconds. Returns 0 or -1.
 */
int stages_duration(const char *text, size_t len, double *ret);

/*
 * Parse DURATION:USERS[,DURATION:USERS...].
 *
 * Returns 0, or -EINVAL with a text that names the stage and what is wrong with it.
 */
int stages_parse(const char *text, struct stages *ret, struct mlr_error *err);

/* How long all stages take. */
double stages_seconds(const struct stages *s);

/* The users at a time since the start; after the end as at the end. */
unsigned stages_users(const struct stages *s, double t);

/* When their number changes next, at or after t; never later than the end of a stage. Infinite
 * after the end. */
double stages_change(const struct stages *s, double t);

/* The most users of all times. */
unsigned stages_most(const struct stages *s);

#endif
