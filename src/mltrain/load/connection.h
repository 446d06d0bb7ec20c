/* A connection of the load generator, on which one request after another is sent. */
#pragma once

#include "load/answer.h"
#include "load/load.h"

struct stream {
	int fd;         /* -1: not open */
	SSL *ssl;       /* NULL without TLS */
	uint32_t wants; /* after -EAGAIN: EPOLLIN or EPOLLOUT */
};

enum connection_state {
	CONNECTION_OFF,    /* not connected */
	CONNECTION_MAKING, /* connecting, with a request to send, or at the start without one */
	CONNECTION_IDLE,   /* connected, nothing to do */
	CONNECTION_ASKING, /* a request is being sent or its answer read */
};

/* Connections in the order of their due times. */
struct connection_queue {
	struct connection *first, *last;
};

struct connection {
	struct stream stream;
	enum connection_state state;
	uint32_t watched;    /* epoll's events */
	int has_request;     /* one is due as soon as it is connected */
	int on_way;          /* a request is on its way: counted by the engine */
	uint64_t due, began; /* ns: when the request was due; when this attempt began */
	struct request request;
	size_t left; /* bytes of the request to send */
	struct request_buffer buffer;
	struct answer answer;
	uint32_t checks; /* bits of the checks on headers that this answer passed */
	const struct load_options *o;

	struct connection_queue *queue; /* the one it stands in; NULL: none */
	struct connection *before, *after;
	uint64_t at; /* ns: when the queue has something to do for it */
};

/* The outcome of an event. */
enum connection_event {
	CONNECTION_WAITS,    /* for more */
	CONNECTION_READY,    /* connected, with nothing to send */
	CONNECTION_ANSWERED, /* answer is complete */
	CONNECTION_LOST,     /* an idle one was closed by the server */
	CONNECTION_FAILED,   /* connection_failure says why */
};

struct connection_failure {
	enum results_kind kind;
	char text[160];
};

/*
 * What all TLS connections share.
 *
 *   ca      a PEM file of authorities to trust; NULL: the machine's
 *   verify  0: any certificate will do
 *
 * Returns 0, or -EINVAL for a file without certificates. SSL_CTX_free() releases ret.
 */
int connection_tls_new(const char *ca, int verify, SSL_CTX **ret, struct mlr_error *err);

void connection_init(struct connection *c, const struct load_options *o);
void connection_done(struct connection *c);

/* Close it, if it is open. With connection_close() it leaves its queue, too. */
void connection_drop(struct connection *c);
void connection_close(struct connection *c);

/*
 * Begin: connect, or send at once.
 *
 *   now   ns
 */
enum connection_event connection_begin(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f);

/* Continue as far as possible without waiting. */
enum connection_event connection_go(struct connection *c, int poll, uint64_t now, struct results *r,
	struct connection_failure *f);

/* Count an answer's checks. */
void connection_check(const struct connection *c, struct results *r);

/* Move it to the end of a queue. */
void connection_enqueue(struct connection_queue *q, struct connection *c, uint64_t at);
void connection_dequeue(struct connection *c);
