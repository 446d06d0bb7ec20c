/* The parts of a server, for the files of this room. */
#pragma once

#include "http/http.h"

#include <microhttpd.h>

/* --- conns.c: the time limits of connections --- */

/* Those without a time limit come last. */
enum http_phase { HTTP_WAITS, HTTP_SENDS, HTTP_TAKES, HTTP_COMPUTES, HTTP_SLEEPS };

struct http_conn {
	struct http_conn *next, **at;
	struct MHD_Connection *mhd;
	int fd;
	int requests; /* so far, counted by the server */
	enum http_phase phase;
	int64_t since_ms;
	int woken; /* since it entered a phase */
};

struct http_conns;

/*
 *   idle_ms      for HTTP_WAITS: until a request's first line is there
 *   request_ms   for HTTP_SENDS and HTTP_TAKES
 */
int http_conns_open(
	int64_t idle_ms, int64_t request_ms, struct http_conns **ret, struct mlr_error *err);
void http_conns_close(struct http_conns **c);

/* A connection, which waits. http_conns_remove() comes before its socket's close(2). */
struct http_conn *http_conns_add(struct http_conns *c, struct MHD_Connection *mhd);
void http_conns_remove(struct http_conns *c, struct http_conn *conn);

/* A connection enters a phase, now. */
void http_conns_enter(struct http_conns *c, struct http_conn *conn, enum http_phase phase);

/* Suspend a stream that has nothing to send, unless it was woken meanwhile; wake it. */
void http_conns_sleep(struct http_conns *c, struct http_conn *conn);
void http_conns_wake(struct http_conns *c, struct http_conn *conn);

/* End all that wait for a request, but for one that is there already, and wake all that sleep;
 * returns how many do anything but wait. */
int http_conns_drain(struct http_conns *c);

/* --- the server --- */

/* A socket that is served. */
struct http_door {
	struct http_server *server;
	struct MHD_Daemon *daemon;
	struct http_socket socket; /* its name is borrowed */
};

struct http_server {
	struct http_wish wish;
	struct http_use *use;
	struct http_conns *conns;
	struct http_door doors[HTTP_SOCKETS_MAX];
	int n;
};

/* A request as the server has it. */
struct http_ask {
	struct http_request q; /* first */
	struct http_door *door;
	struct MHD_Connection *mhd;
	struct http_conn *conn;
	char *body;
	size_t room;    /* of body */
	int begun;      /* the header is there */
	int must_close; /* nothing behind this request can be trusted */

	/* The answer, if it is a stream or a file. */
	ssize_t (*read)(struct http_request *q, char *to, size_t size);
	int fd;
	off_t offset;
	_Alignas(max_align_t) char state[];
};

/* --- reply.c --- */

/* Send an answer; takes what it has. */
enum MHD_Result http_reply_send(struct http_ask *x, struct http_reply *reply);

/* Send what the program says of the failure. */
enum MHD_Result http_reply_fail(struct http_ask *x);

/* Free what an answer has that is not sent. */
void http_reply_done(struct http_reply *reply);

/* --- strict.c: checks of a request's head --- */

/* The path of a target without "http://HOST" before it. */
const char *http_strict_path(const char *target);

/*
 * Check the headers. Returns 0; -EPROTO for two Hosts or none in HTTP/1.1, a Host that is no
 * HOST[:PORT], two lengths of the body; -ENOTSUP for a transfer coding but "chunked"; -EMEDIUMTYPE
 * for a body that is compressed.
 */
int http_strict_headers(struct MHD_Connection *mhd, const char *version, struct mlr_error *err);

/* Can this be a Host? */
int http_strict_is_host(const char *s);

/*
 * Check by whom a browser was led here: the Host, where another name than the server's own may lead
 * to it (DNS rebinding), and for what changes something the page that asks (Fetch, "Origin" and
 * "Sec-Fetch-Site"). Programs that are no browsers send neither. Returns 0, -EADDRNOTAVAIL or
 * -EXDEV.
 */
int http_strict_site(const struct http_ask *x, struct mlr_error *err);
