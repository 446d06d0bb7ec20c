/* The way of a request of http through the dialects, the cache and the queue. */
#pragma once

#include "serve/cache.h"
#include "serve/routes.h"

/* --- queue.c: computes what waits --- */

struct serve_job {
	struct serve_model *model; /* borrowed until done() */
	const uint8_t *images;     /* [rows] */
	float *logits;             /* [rows][classes] */
	int rows;
	int failed; /* 0, or a positive errno */

	/* Called once, in the queue's thread, after the last row. */
	void (*done)(struct serve_job *job);
	void *ctx;

	/* The queue's own. */
	struct serve_job *next;
	int taken;
	double since;
};

struct serve_queue_wish {
	int batch;    /* images at once at most */
	double delay; /* seconds that a batch that is not full waits for more */
	int most;     /* images that wait at most */
};

struct serve_queue;

/* Start the thread. Returns 0, or -EAGAIN. */
int serve_queue_open(const struct serve_queue_wish *wish, struct serve_counts *counts,
	struct serve_queue **ret, struct mlr_error *err);

/* Wait for nothing any more, as the server ends. */
void serve_queue_hurry(struct serve_queue *q);

/* Compute what waits, and end the thread. */
void serve_queue_close(struct serve_queue **q);

/* Put a job at the end. Returns 0, or -EBUSY if as many images wait as may. */
int serve_queue_put(struct serve_queue *q, struct serve_job *job);

/* --- the server --- */

#define SERVER_SOCKETS 2

struct server;

/*
 * Start to serve.
 *
 *   wish    without functions and state
 *   rows    images of a request at most
 *   sockets [SERVER_SOCKETS], taken as by http_open()
 *   cache   NULL: none
 *
 * All else is borrowed until server_close(). Returns 0 or an error of http_open().
 */
int server_open(const struct http_wish *wish, int rows, const struct http_socket *sockets,
	struct serve_context *context, struct serve_queue *queue, struct serve_cache *cache,
	struct server **ret, struct mlr_error *err);

/* Accept no more connections, refuse new requests with 503, and wait until what was asked before is
 * answered, at most so long. Returns the number of connections that were not. */
int server_drain(struct server *s, int64_t timeout_ms);

void server_close(struct server **s);
