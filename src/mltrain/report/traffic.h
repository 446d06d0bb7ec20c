/*
 * The results of `mltrain load`, from the JSON that it writes (mltrain-load(1), "JSON"): untrusted,
 * one object a line. Unknown keys are ignored, missing and odd numbers are NAN.
 */
#ifndef MLT_REPORT_TRAFFIC_H
#define MLT_REPORT_TRAFFIC_H

#include "base/base.h"

#define TRAFFIC_MAX          16                  /* runs on a page */
#define TRAFFIC_BYTES_MAX    ((size_t)256 << 20) /* of a file */
#define TRAFFIC_POINTS_MAX   ((size_t)1 << 20)   /* of a curve */
#define TRAFFIC_VERDICTS_MAX 64

/* Numbers of a run, as in its JSON. */
enum traffic_number {
	TRAFFIC_REQUESTS,
	TRAFFIC_RATE,
	TRAFFIC_FAILED,
	TRAFFIC_SECONDS,
	TRAFFIC_SENT,
	TRAFFIC_RECEIVED,
	TRAFFIC_KNOWN,
	TRAFFIC_UNIQUE,
	TRAFFIC_NOT_SENT,
	TRAFFIC_UNFINISHED,
	TRAFFIC_USERS,
	TRAFFIC_CONNECTIONS,
	TRAFFIC_CPU,   /* us a request */
	TRAFFIC_SHARE, /* of a processor, taken by the generator */
	TRAFFIC_NUMBERS,
};

/* Latencies, in milliseconds. */
enum traffic_latency {
	TRAFFIC_MIN,
	TRAFFIC_AVG,
	TRAFFIC_MED,
	TRAFFIC_P90,
	TRAFFIC_P95,
	TRAFFIC_P99,
	TRAFFIC_P999,
	TRAFFIC_MOST,
	TRAFFIC_LATENCIES,
};
extern const char *const traffic_latencies[TRAFFIC_LATENCIES]; /* "min", …, "p99.9", "max" */

/* Values over the seconds of the run. */
enum traffic_curve {
	TRAFFIC_CURVE_MED,
	TRAFFIC_CURVE_P99,
	TRAFFIC_CURVE_RATE, /* requests a second */
	TRAFFIC_CURVE_FAILED,
	TRAFFIC_CURVE_USERS,
	TRAFFIC_CURVE_PERCENTILES, /* ms over how many requests one is slower of */
	TRAFFIC_CURVES,
};

struct traffic_points {
	double *x, *y; /* [n], owned, finite, x not falling */
	size_t n;
};

/* A check or a threshold. */
struct traffic_verdict {
	char *text, *shown; /* owned; shown: what was seen */
	int good;
};

struct traffic_run {
	char *name, *url, *load, *host; /* owned, never NULL */
	char *where;                    /* the file, and behind a colon its line from 2 on; owned */
	double numbers[TRAFFIC_NUMBERS], latencies[TRAFFIC_LATENCIES];
	int interrupted;
	struct traffic_points curves[TRAFFIC_CURVES];
	struct traffic_verdict *verdicts; /* [n_verdicts], owned */
	size_t n_verdicts;
};

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

#endif
