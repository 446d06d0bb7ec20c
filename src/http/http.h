/*
 * http: HTTP/1.1 by libmicrohttpd, for programs that answer: sockets, threads, limits, tokens, and
 * whose requests are let in. Knows no paths and no purposes.
 *
 * A program listens, opens a server with a wish, and gives it four functions, which the server
 * calls in its own threads. Nothing that takes long may happen in them: a request that needs time
 * is suspended, and resumed from anywhere. A request goes so:
 *
 *   head(q)          its header is there and was let in: look at the path
 *   answer(q, ret)   its body is there, too: write the answer, or suspend it; again once resumed
 *   fail(q, ret)     instead, or after answer() failed: write q->error as the answer
 *   done(q)          it ends: answered, or its client is gone; forget q
 *
 * Refused before head(), without a look at the body: what two readers of HTTP could take for two
 * different requests (400, 415, 501; the connection is closed), a Host that is none of ours (421),
 * a page of another site that would change something (403). Refused after head(): a token that is
 * missing or wrong (401), a body that is too long (413). The rest of a body is read and dropped, so
 * that its client gets the answer.
 */
#pragma once

#include "base/base.h"

#include <assert.h>
#include <stdatomic.h>

/* --- listen.c: the sockets --- */

#define HTTP_SOCKETS_MAX 4

/* The clients that can reach a socket. */
enum http_reach {
	HTTP_FILE,     /* unix: those that may write to the file */
	HTTP_LOOPBACK, /* all on this machine, browsers with foreign pages included */
	HTTP_NETWORK,
};

struct http_socket {
	int fd;     /* listening, the server's once that is opened */
	char *name; /* "http://127.0.0.1:8000" or "unix:PATH", to free() */
	enum http_reach reach;
	int shares;
};

/*
 * Bind and listen.
 *
 *   where    HOST:PORT, [IPv6]:PORT or unix:PATH; port 0: any
 *   shares   other servers of this user that share may listen at the same port: each connection
 *            goes to one of them (socket(7), SO_REUSEPORT), and is closed after some thousand
 *            requests, so that its client meets one that was started meanwhile
 *
 * A socket file of a server that has ended is replaced; its mode is 0600. Returns 0, -EINVAL for no
 * such address, -EADDRINUSE and kin.
 */
int http_listen(const char *where, int shares, struct http_socket *ret, struct mlr_error *err);

/* --- what all requests share --- */

/* The present state of a server, to read at any time; zeroed at the start. */
struct http_use {
	atomic_int_fast64_t connections; /* open */
	atomic_int_fast64_t memory;      /* bytes of bodies, and of what else was taken */
	atomic_int ending;               /* true from http_drain() on */
	int64_t memory_max;
};

static inline void http_memory_give(struct http_use *u, size_t bytes)
{
	atomic_fetch_sub(&u->memory, (int_fast64_t)bytes);
}

/* Returns 0, or -EBUSY if so many bytes more are too many. */
static inline int http_memory_take(struct http_use *u, size_t bytes)
{
	if (atomic_fetch_add(&u->memory, (int_fast64_t)bytes) + (int64_t)bytes <= u->memory_max)
		return 0;
	http_memory_give(u, bytes);
	return -EBUSY;
}

/* --- server.c: requests --- */

#define HTTP_TOKEN_MIN 16 /* characters */

/* A request. Its texts live until done() has returned. */
struct http_request {
	void *ctx;            /* of the server's functions */
	void *state;          /* the program's own: wish.state bytes, zeroed */
	const char *method;   /* "GET" */
	const char *path;     /* unescaped, without query and "http://HOST" */
	const char *type;     /* Content-Type, or "" */
	const char *body;     /* [len], from answer() on; NULL: empty, or dropped */
	size_t len, body_max; /* body_max: head() may change it */
	enum http_reach reach;
	int token;    /* number of the wish's token that it has, from 1; 0: none, or a wrong one */
	int is_open;  /* head() sets it: the path needs no token */
	int is_late;  /* began after http_drain() */
	double start; /* mlr_now() as its first line was there */
	int status;   /* of the answer; 0: not yet */
	struct mlr_error error; /* code 0: none yet */
};

/* A header's value, and an argument's of the query, unescaped: the first of that name; NULL: not
 * there, "": without a value. */
const char *http_header(const struct http_request *q, const char *name);
const char *http_argument(const struct http_request *q, const char *name);

/* Free the body early, as it is not needed any more. */
void http_body_drop(struct http_request *q);

/* --- reply.c: answers --- */

#define HTTP_HEADERS_MAX 12

struct http_field {
	const char *name, *value; /* borrowed until answer() has returned; name NULL: the end */
};

/* An answer: a body in memory, a part of a file, or a stream. Content-Length, Connection,
 * WWW-Authenticate and Retry-After come by themselves. */
struct http_reply {
	int status;       /* 200; for fail(), that of the error's code */
	const char *type; /* Content-Type; NULL: none */
	struct http_field fields[HTTP_HEADERS_MAX];
	int n_fields;

	char *body;          /* [len], taken: the server frees it */
	const void *content; /* [len], in place of body: borrowed until done() has returned */
	int fd;              /* in place of both: len bytes from offset on; taken; -1: none */
	off_t offset;
	uint64_t len;

	/*
	 * In place of all: a stream of unknown length, such as text/event-stream. Called in a
	 * thread of the server whenever the client has taken what there was: writes up to size
	 * bytes and returns how many, 0 if there is nothing now, or -1 at the end.
	 *
	 * After 0 the stream sleeps, and is called again after http_stream_wake(); no time limit
	 * counts then, and libmicrohttpd does not notice that the client is gone. So the program
	 * wakes every stream now and then: a client that has closed is found before the call, one
	 * whose machine is gone by a comment that it does not take. http_drain() and http_close()
	 * end all streams.
	 */
	ssize_t (*read)(struct http_request *q, char *to, size_t size);
};

#define HTTP_REPLY_INIT                 \
	{                               \
		.status = 200, .fd = -1 \
	}

/* Add a header to an answer. */
static inline void http_reply_add(struct http_reply *r, const char *name, const char *value)
{
	assert(r->n_fields < HTTP_HEADERS_MAX);
	r->fields[r->n_fields++] = (struct http_field){ name, value };
}

/* Wake a stream, which has something to send, from any thread; until done(q) has returned. So hold
 * a lock that done() takes to forget q; read() may take it, too. */
void http_stream_wake(struct http_request *q);

/* --- the server --- */

/* Returned by answer() after http_suspend(): the answer comes later. */
#define HTTP_LATER 1

struct http_wish {
	const char *const *tokens; /* NULL-ended; NULL: none needed */
	/* NULL-ended or NULL: NAME or NAME:PORT of the server, besides its own loopback names, as a
	 * proxy calls it. Without any, a socket of HTTP_NETWORK has whatever name. A page of
	 * https://NAME[:PORT], too, is the server's own, as a proxy may send another Host. */
	const char *const *hosts;
	const struct http_field *fields; /* headers of all answers, to a NULL; NULL: none */
	int threads;                     /* that read and write */
	int connections;                 /* at most, divided among the sockets */
	size_t body;                     /* bytes of a body at most */
	size_t memory;                   /* of http_use at most */
	size_t state;                    /* bytes of the program's for each request */
	int64_t idle_ms;                 /* a connection may wait for its next request */
	int64_t request_ms; /* a client may take to send a request, and to take an answer in
			       memory, or the next part of another one */

	/* The functions: see above. head() and answer() refuse by q->error, whose code decides the
	 * status (status_of() in reply.c). answer() returns 0, HTTP_LATER or what is negative;
	 * after a failure of fail() the connection is closed. */
	void (*head)(struct http_request *q);
	int (*answer)(struct http_request *q, struct http_reply *ret);
	int (*fail)(struct http_request *q, struct http_reply *ret);
	void (*done)(struct http_request *q);
	void *ctx;
};

struct http_server;

/*
 * Start to serve.
 *
 *   wish      borrowed with all in it, as use, until http_close()
 *   sockets   [n], those with a negative fd left out; the descriptors are taken, also on a failure
 *
 * Returns 0, -EINVAL for a name of hosts that cannot be one, -EIO.
 */
int http_open(const struct http_wish *wish, struct http_use *use, const struct http_socket *sockets,
	int n, struct http_server **ret, struct mlr_error *err);

/* In answer(), before anybody else gets the request: take it out of the server's hands. Resume it
 * once, from any thread: answer() follows, or fail() if q->error is set. */
void http_suspend(struct http_request *q);
void http_resume(struct http_request *q);

/* Accept no more connections, end the streams, and wait until what was asked before is answered, at
 * most so long. Returns the number of connections where it was not. */
int http_drain(struct http_server *s, int64_t timeout_ms);

/* End. Nothing may be suspended. */
void http_close(struct http_server **s);

/* --- readers.c: threads for what takes long, such as reading a large body --- */

struct http_readers;

/* A piece of work. */
struct http_reading {
	void (*run)(struct http_reading *r); /* called once, in a thread of the readers; r may be
						gone afterwards */
	void *ctx;
	struct http_reading *next; /* the readers' own */
};

/* Start so many threads. Returns 0, or -EAGAIN and the like. */
int http_readers_open(int threads, struct http_readers **ret, struct mlr_error *err);

/* End when all that was put is done. */
void http_readers_close(struct http_readers **r);

/* Do it when its turn comes. */
void http_readers_put(struct http_readers *r, struct http_reading *reading);
