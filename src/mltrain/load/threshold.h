/*
 * Bounds that a run must keep, in k6's grammar of thresholds: [METRIC:]AGGREGATE OP VALUE
 *
 *   p(99)<2000ms              http_req_duration, if no metric is named: avg min med max p(N); in
 *                             milliseconds, or with a unit of us, ms, s, m
 *   http_req_failed:rate<1%   a share: 0.01 or 1%
 *   http_reqs:rate>1000       requests a second; count: requests
 *   checks:rate>0.99          the share of checks that passed
 */
#ifndef MLT_LOAD_THRESHOLD_H
#define MLT_LOAD_THRESHOLD_H

#include "load/check.h"
#include "load/results.h"

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

#endif
