/* The counters of /metrics, in Prometheus' text format (version 0.0.4). Thread-safe, without locks.
 */
#pragma once

#include "http/http.h"

#define SERVE_ROUTES_MAX 32
#define SERVE_CODES      16
#define SERVE_BUCKETS    16

struct serve_histogram {
	atomic_uint_fast64_t bucket[SERVE_BUCKETS + 1]; /* the last: above all bounds */
	atomic_uint_fast64_t sum;                       /* microseconds, or images */
};

/* Zeroed at the start. */
struct serve_counts {
	atomic_uint_fast64_t requests[SERVE_ROUTES_MAX][SERVE_CODES];
	struct serve_histogram latency, batches;
	struct http_use http;
	atomic_int_fast64_t queued;
	atomic_uint_fast64_t hits, misses, cache_errors, reloads, reloads_failed;
};

/* A request to a route by its number was answered with a status after so many seconds. */
void serve_counts_request(struct serve_counts *c, int route, int status, double seconds);
void serve_counts_batch(struct serve_counts *c, int rows);

/* The text, to free(). route_name() is given 0, 1, … until it returns NULL. */
char *serve_counts_text(struct serve_counts *c, const char *(*route_name)(int route));
