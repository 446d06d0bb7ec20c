/*
 * The time limits of connections. A connection may wait for its next request, send a body and take
 * an answer, each for so long; what is being computed has no limit here. A thread looks at all of
 * them a few times a second and shuts down those that are late.
 */
#ifndef MLT_SERVE_CONNS_H
#define MLT_SERVE_CONNS_H

#include "base/base.h"

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

#endif
