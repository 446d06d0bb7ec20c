/* HTTP/1.1 by libmicrohttpd: connections, limits, tokens, and the way of a request through the
 * dialects, the cache and the queue. */
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

#define SERVE_TOKEN_MIN 16 /* characters */

struct server_wish {
	const char *token;           /* NULL: none needed */
	int threads;                 /* that read and write */
	int connections;             /* at most, divided among the sockets */
	size_t body;                 /* bytes of a body at most */
	size_t memory;               /* bytes of all bodies and images at most */
	int rows;                    /* images of a request at most */
	int64_t idle_ms, request_ms; /* conns.c */
};

#define SERVER_SOCKETS 2

struct server;

/*
 * Start to serve.
 *
 *   fds     [SERVER_SOCKETS] listening, or -1; the server's, also after a failure
 *   cache   NULL: none
 *
 * All is borrowed until server_close(). Returns 0 or -EIO.
 */
int server_open(const struct server_wish *wish, const int *fds, struct serve_context *context,
	struct serve_queue *queue, struct serve_cache *cache, struct server **ret,
	struct mlr_error *err);

/* Accept no more connections, refuse new requests with 503, and wait until what was asked before is
 * answered, at most so long. Returns the number of connections that were not. */
int server_drain(struct server *s, int64_t timeout_ms);

void server_close(struct server **s);

/* --- listen.c: the socket to listen on: HOST:PORT, [IPv6]:PORT or unix:PATH --- */

/*
 * Bind and listen.
 *
 *   where     port 0: any
 *   shares    other servers of this user that share may listen at the same port: each connection
 *             goes to one of them (socket(7), SO_REUSEPORT)
 *   ret_fd    the caller's
 *   ret_name  "http://127.0.0.1:8000" or "unix:PATH", to free()
 *   ret_local whether only this machine can reach it
 *
 * A socket of a server that has ended is replaced. Returns 0, -EINVAL for no such address,
 * -EADDRINUSE and kin.
 */
int serve_listen(const char *where, int shares, int *ret_fd, char **ret_name, int *ret_local,
	struct mlr_error *err);

/* --- conns.c: the time limits of connections --- */

enum serve_phase { SERVE_WAITS, SERVE_SENDS, SERVE_COMPUTES, SERVE_TAKES };

struct serve_conn {
	struct serve_conn *next, **at;
	int fd;
	int requests; /* so far, counted by the server */
	enum serve_phase phase;
	int64_t since_ms;
};

struct serve_conns;

/*
 *   idle_ms      for SERVE_WAITS: until a request's first line is there
 *   request_ms   for SERVE_SENDS and SERVE_TAKES
 */
int serve_conns_open(
	int64_t idle_ms, int64_t request_ms, struct serve_conns **ret, struct mlr_error *err);
void serve_conns_close(struct serve_conns **c);

/* A connection on a socket, which waits. serve_conns_remove() comes before the socket's close(2).
 */
struct serve_conn *serve_conns_add(struct serve_conns *c, int fd);
void serve_conns_remove(struct serve_conns *c, struct serve_conn *conn);

/* A connection enters a phase, now. */
void serve_conns_enter(struct serve_conns *c, struct serve_conn *conn, enum serve_phase phase);

/* End all that wait for a request, but for one that is there already; returns how many do anything
 * else. */
int serve_conns_drain(struct serve_conns *c);

/* --- readers.c: threads that read what takes long --- */

struct serve_readers;

/* A body to read. */
struct serve_reading {
	void (*run)(struct serve_reading *r); /* called once, in a thread of the readers; r may be
						 gone afterwards */
	void *ctx;
	struct serve_reading *next; /* the readers' own */
};

/* Start so many threads. Returns 0, or -EAGAIN and the like. */
int serve_readers_open(int threads, struct serve_readers **ret, struct mlr_error *err);

/* End when all that was put is read. */
void serve_readers_close(struct serve_readers **r);

/* Read it when its turn comes. */
void serve_readers_put(struct serve_readers *r, struct serve_reading *reading);

/* --- strict.c: checks of a request's head --- */

struct MHD_Connection;

/* The path of a target without "http://HOST" before it. */
const char *serve_strict_path(const char *target);

/*
 * Check the headers. Returns 0; -EPROTO for two Hosts or none in HTTP/1.1, a Host that is no
 * HOST[:PORT], two lengths of the body; -ENOTSUP for a transfer coding but "chunked"; -EMEDIUMTYPE
 * for a body that is compressed.
 */
int serve_strict_headers(struct MHD_Connection *mhd, const char *version, struct mlr_error *err);
