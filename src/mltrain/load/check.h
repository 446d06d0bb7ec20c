/*
 * Conditions on answers, as k6's check(); the results have the share of answers that meet them:
 *
 *   status==200                        also != < <= > >=
 *   body contains "prediction"         also == and !=
 *   header X-MLAPI-Cache == "Hit"      likewise; a name in any case
 *
 * Quotes may be left out.
 */
#pragma once

#include "load/results.h"

#define CHECKS_MAX     32
#define CHECK_BODY_MAX 65536 /* bytes of a body that checks look at; the rest is not kept */

enum check_subject { CHECK_STATUS, CHECK_BODY, CHECK_HEADER };
enum check_op {
	CHECK_EQUAL,
	CHECK_UNEQUAL,
	CHECK_LESS_EQUAL,
	CHECK_MORE_EQUAL,
	CHECK_LESS,
	CHECK_MORE,
	CHECK_CONTAINS,
};

struct check {
	char *text; /* as given; owned, as are name and value */
	enum check_subject subject;
	enum check_op op;
	char *name; /* of a header; NULL: of none */
	char *value;
	size_t len; /* of value */
	int status;
	uint64_t passed, failed;
};

void check_done(struct check *c);

/* Returns 0, or -EINVAL with a text that names what is wrong. */
int check_parse(const char *text, struct check *ret, struct mlr_error *err);

/* Is it met by a status, a body, a header's value (which need not end with a NUL)? */
int check_status(const struct check *c, int status);
int check_bytes(const struct check *c, const char *bytes, size_t len);

/* The first of text that is neither a blank nor a tab. For thresholds, too. */
const char *check_skip_blanks(const char *p);

/* Read the operator at the start of text, longest first; add its length to *len. Returns -1 without
 * one. For thresholds, too. */
int check_op_read(const char *text, size_t *len);

/* Compute a OP b; CHECK_CONTAINS is never true. */
int check_numbers(enum check_op op, double a, double b);

/* --- threshold.c: bounds that a run must keep --- */

#define THRESHOLDS_MAX 32

enum threshold_metric {
	THRESHOLD_DURATION,
	THRESHOLD_FAILED,
	THRESHOLD_REQUESTS,
	THRESHOLD_CHECKS,
};
enum threshold_aggregate {
	THRESHOLD_AVG,
	THRESHOLD_MIN,
	THRESHOLD_MED,
	THRESHOLD_MAX,
	THRESHOLD_P,
	THRESHOLD_RATE,
	THRESHOLD_COUNT,
};

struct threshold {
	char *text; /* as given, owned */
	enum threshold_metric metric;
	enum threshold_aggregate aggregate;
	double p; /* of THRESHOLD_P, 0 to 100 */
	enum check_op op;
	double value; /* milliseconds, a share, or requests and requests a second */
};

void threshold_done(struct threshold *t);

/* Returns 0, or -EINVAL with a text that names what is wrong. */
int threshold_parse(const char *text, struct threshold *ret, struct mlr_error *err);

/* Compute the value that it compares, in the unit of its limit; NAN if there was no answer, check
 * or request. */
double threshold_seen(const struct threshold *t, const struct results *r);

/* Is it kept? One with nothing to look at is broken. */
int threshold_kept(const struct threshold *t, const struct results *r);

/* Print such a value with its unit, "12.3 ms", "0.50 %"; "nothing" for NAN. */
char *threshold_shown(const struct threshold *t, double seen, char buf[48]);
