/* The number of virtual users over time, in the grammar of k6's option "stages". */
#pragma once

#include "base/base.h"

#define STAGES_MAX       100
#define STAGES_USERS_MAX 100000
#define STAGES_S_MAX     604800.0 /* a week */

/* Within a stage the number changes linearly from the one before to this. */
struct stage {
	double seconds;
	unsigned users;
};

/* Begins with one user, as in k6, unless the first stage takes no time. */
struct stages {
	struct stage v[STAGES_MAX];
	size_t n;
};

/* Parse a duration (base/duration.h) of at most STAGES_S_MAX seconds. Returns 0 or -1. */
int stages_duration(const char *text, size_t len, double *ret);

/*
 * Parse DURATION:USERS[,DURATION:USERS...].
 *
 * Returns 0, or -EINVAL with a text that names the stage and what is wrong with it.
 */
int stages_parse(const char *text, struct stages *ret, struct mlr_error *err);

/* Return the length of all stages. */
double stages_seconds(const struct stages *s);

/* Return the users at a time since the start; after the end as at the end. */
unsigned stages_users(const struct stages *s, double t);

/* Return when their number changes next, at or after t; never later than the end of a stage, and
 * infinite after the end. */
double stages_change(const struct stages *s, double t);

/* Return the most users at any time. */
unsigned stages_most(const struct stages *s);
