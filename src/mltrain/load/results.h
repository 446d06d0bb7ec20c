/* The results of a run of requests: counts, durations, and a row for each second. */
#pragma once

#include "base/base.h"

/* --- histogram.c: durations --- */

#define HISTOGRAM_MAX   3600000000u        /* µs: one hour; longer ones count as this */
#define HISTOGRAM_SLOTS (2048 + 21 * 1024) /* 22 bits above the lowest 10 of HISTOGRAM_MAX */

struct histogram {
	uint64_t count, least, most; /* least and most are exact; 0 if count is 0 */
	double sum;
	uint64_t slots[HISTOGRAM_SLOTS];
};

/* Make an empty one, to free(). */
struct histogram *histogram_new(void);

void histogram_clear(struct histogram *h);

/* Count a duration in µs. */
void histogram_record(struct histogram *h, uint64_t us);

/* Add the counts of another one. */
void histogram_add(struct histogram *h, const struct histogram *more);

/*
 * The smallest duration in µs that at least p per cent of those counted do not exceed, as the upper
 * end of its slot.
 *
 *   p   0 to 100
 *
 * Returns 0 of an empty histogram.
 */
uint64_t histogram_percentile(const struct histogram *h, double p);

/* 0 of an empty histogram. */
double histogram_mean(const struct histogram *h);

/* --- results --- */

#define RESULTS_STATUS_MAX 600

/* Why a request failed. */
enum results_kind {
	RESULTS_CONNECT, /* refused, no route, no port left */
	RESULTS_TLS,     /* handshake, certificate */
	RESULTS_CLOSED,  /* reset, or closed before the answer's end */
	RESULTS_TIMEOUT,
	RESULTS_GARBAGE, /* not an answer of HTTP/1 */
	RESULTS_SIZE,    /* an answer without an end: answer.h's limits */
	RESULTS_STATUS,  /* an answer of status 400 or above */
	RESULTS_KINDS,
};

/* A second of the run, or what is left of one at its end. Durations in µs. */
struct results_row {
	double time;    /* seconds since the start, at its end */
	double seconds; /* its length */
	unsigned users; /* virtual users at its end; of an open loop, the most requests on their way
			 */
	uint64_t requests, failed, sent, received;
	uint64_t p50, p95, p99, most;
};

struct results {
	struct histogram *all;    /* of answers and of timeouts, owned */
	struct histogram *second; /* of the current second, owned */
	uint64_t requests;        /* that ended: answers and failures */
	uint64_t failed, kinds[RESULTS_KINDS], statuses[RESULTS_STATUS_MAX];
	char *examples[RESULTS_KINDS]; /* the first one of a kind in words, owned; or NULL */
	uint64_t checks_passed, checks_failed;
	uint64_t sent, received;   /* bytes, with TLS those inside it */
	uint64_t repeated, unique; /* requests by their bodies */
	uint64_t connections;      /* made */
	double connect_seconds;    /* to make them, all together */
	uint64_t not_sent;   /* timeouts of an open loop: due, but no connection was free until the
				end */
	uint64_t unfinished; /* on their way when the run ended; timeouts, unless it was stopped */
	unsigned users_most;
	double seconds;           /* of the run, to the last answer */
	double cpu_seconds;       /* of this process meanwhile */
	struct results_row *rows; /* [n_rows], owned */
	size_t n_rows;
	struct results_row row; /* the current one */
};

void results_init(struct results *r);
void results_done(struct results *r);

extern const char *const results_kinds[RESULTS_KINDS]; /* "connection", "timeout", as in JSON */

/* Count an answer of any status. Durations are in µs, here and below. */
void results_answer(struct results *r, int status, uint64_t us);

/*
 * Count a request without an answer.
 *
 *   us      counted only for a timeout: others end so soon that they would flatter
 *   detail  for people; may be NULL
 */
void results_failure(struct results *r, enum results_kind k, uint64_t us, const char *detail);

/* Count a request of an open loop that was never sent, as a timeout. It ran in no second, so it has
 * no row. */
void results_not_sent(struct results *r, uint64_t us);

/* End the current row at a time since the start. */
void results_row_end(struct results *r, double time);

/* Return the requests sent per second. */
double results_rate(const struct results *r);

/* Return the share of one processor that this process took. */
double results_busy(const struct results *r);
