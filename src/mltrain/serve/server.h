/* HTTP/1.1 by libmicrohttpd: connections, limits, tokens, and the way of a request through the
 * dialects, the cache and the queue. */
#ifndef MLT_SERVE_SERVER_H
#define MLT_SERVE_SERVER_H

#include "serve/cache.h"
#include "serve/queue.h"
#include "serve/routes.h"

#define SERVE_TOKEN_MIN 16 /* characters */

struct server_wish {
	const char *token;           /* NULL: none needed */
	int threads;                 /* that read and write */
	int connections;             /* at most, divided among the sockets */
	size_t body;                 /* bytes of a body at most */
	size_t memory;               /* bytes of all bodies and images at most */
	int rows;                    /* images of a request at most */
	int64_t idle_ms, request_ms; /* conns.h */
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

#endif
