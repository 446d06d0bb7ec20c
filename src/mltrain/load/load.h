/*
 * load: a load generator for HTTP servers. Sends requests over many connections, in a closed loop
 * of virtual users (each waits for its answer before it asks again) or in an open loop at a
 * constant rate, and measures how long the answers take. Reads only HTTP/1 from a server.
 *
 * One thread does it all, with sockets that never block.
 */
#pragma once

#include "load/check.h"
#include "load/request.h"
#include "load/stages.h"

#include <openssl/types.h>

#define LOAD_GRACE_S 30.0 /* for requests that are on their way at the end, as in k6 */

/* Borrowed during the run. */
struct load_options {
	const struct target *target; /* found */
	SSL_CTX *tls;                /* NULL: without */
	struct requests *requests;
	struct stages stages;     /* the closed loop; n = 0: an open loop */
	double rate, seconds;     /* of an open loop: requests a second */
	unsigned connections;     /* of an open loop: made at the start */
	unsigned connections_max; /* of an open loop: the most at once */
	double think_s;           /* a user's pause after an answer */
	double timeout_s;         /* for a request, from its connecting on */
	double grace_s;           /* LOAD_GRACE_S */
	int close;                /* a connection for each request */
	struct check *checks;     /* [n_checks], counted */
	size_t n_checks;
	const volatile sig_atomic_t *stop; /* becomes nonzero: end at once */
	/* Called after each second; may be NULL. Anything but 0 ends the run. */
	int (*tell)(void *ctx, const struct results *r, const struct results_row *row);
	void *ctx;
};

/*
 * Run.
 *
 * In the closed loop a duration runs from a request's first byte to the answer's last, as k6
 * counts; in the open loop from the moment at which the request was due, so that a server that
 * stalls is charged for all requests that it kept from being sent (wrk2's correction of
 * "coordinated omission").
 *
 *   ret   initialised; has the counts so far also after a failure
 *
 * A request that has no answer at the end, or was due and not sent, counts as a timeout after the
 * time since it was due. If the run was stopped, requests on their way are not counted.
 *
 * Returns 0 at the end, -EINTR if it was stopped, -ECANCELED by tell(), -ECONNREFUSED and kin if
 * nothing ever answered within its first seconds, -EMFILE if this process may not have as many
 * connections.
 */
int load_run(const struct load_options *o, struct results *ret, struct mlr_error *err);

/* Return the planned length of the run, without the time for the last answers. */
double load_seconds(const struct load_options *o);

/* --- summary.c: the results of a run, for people and as JSON --- */

struct summary {
	const struct load_options *o;
	const struct results *results;
	const char *url, *name; /* name: what a reader calls this run */
	const struct threshold *thresholds;
	size_t n_thresholds;
	double cache_rate, began; /* seconds since 1970 */
	const char *images;       /* NULL: none */
	int interrupted;
};

/* Write a table of some lines. Text of the server is escaped. */
void summary_write(FILE *f, const struct summary *s);

/*
 * Make a line of JSON, with a newline at its end, to free(). `mltrain report` reads it, and
 * mltrain-load(1) lists its keys, which are always there, null if unknown.
 */
char *summary_json(const struct summary *s, size_t *len);

/* Print a line about the latest second, at most so many columns, for a terminal. */
void summary_line(
	char *buf, size_t size, const struct load_options *o, const struct results_row *row);
