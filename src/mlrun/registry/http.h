/*
 * One HTTP exchange over libcurl: request with its body, redirects, response headers, body into a
 * sink. Knows nothing of retries or tokens. For this room's other files.
 *
 * Uses HTTP/1.1 with persistent connections: each handle has its own and is reused. HTTP/2 costs a
 * third more CPU (curl 7.88, 400 MB from docker-registry over TLS: 0.39 s against 0.29), and would
 * save only connections, of which a pull has no more than layers in progress.
 *
 * Thread-safe.
 */
#pragma once

#include "base/base.h"

struct http;

/* Receives body bytes of a 200 or 206. Returns 0, or -errno with err set to end the exchange. */
typedef int (*http_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/* The body of a request. */
struct http_body {
	const char *type; /* Content-Type */
	int64_t length;   /* bytes; -1: until read returns 0 (RFC 9112, 7.1) */
	char range[48];   /* Content-Range as uploads have it, "0-1023", or "" */
	/* Returns the number of the next bytes, 0 at the end, or -errno with err set. May block. */
	ssize_t (*read)(void *ctx, void *buf, size_t len, struct mlr_error *err);
	void *ctx;
};

struct http_exchange {
	/* Set by the caller; all borrowed. */
	const char *url;
	const char *base;          /* the registry's own URL, against which redirects are checked */
	int head;                  /* HEAD instead of GET */
	const char *accept;        /* or NULL */
	const char *authorization; /* "Bearer …", "Basic …" or NULL; sent only to url's origin,
				    * whatever redirects say */
	const char *post;   /* a form, which makes it a POST that follows no redirects; or NULL */
	const char *method; /* "POST", "PUT", "PATCH", "DELETE" with body; NULL: none of these */
	const struct http_body *body; /* follows no redirects; or NULL */
	int64_t total_ms;             /* time limit for the whole exchange; 0: none */
	int64_t stall_ms;             /* instead of http_options'; 0: that */
	uint64_t from;                /* first byte to get; uses Range unless 0 */
	http_sink_fn sink;            /* NULL: nobody wants the body */
	void *sink_ctx;

	/* Set by the exchange. */
	int status;          /* of the last response; 0 if there was none */
	int redirected;      /* the last response came from another origin than url's */
	int transient;       /* after a failure: a retry may help */
	int unreached;       /* after a failure: no connection was made */
	int other_protocol;  /* after a failure: the peer speaks another scheme */
	int64_t length;      /* Content-Length, -1 if absent */
	uint64_t first;      /* of a 206: the start of Content-Range */
	int64_t retry_after; /* seconds, -1 if absent */
	char *content_type, *authenticate; /* headers or NULL */
	char *digest;                      /* the header Docker-Content-Digest, or NULL */
	char *link;                        /* the header Link, or NULL */
	char *location;                    /* the header Location, or NULL */
	char *modified;                    /* the header Last-Modified, or NULL */
	char *range;                       /* the header Range of an upload, or NULL */
	char *quota, *quota_left;          /* the headers RateLimit-Limit and -Remaining, or NULL */
	char *problem; /* up to 16 KiB of the body with other statuses than 200, 206; or NULL */
};

struct http_options {
	int tls_verify;
	const char *ca;          /* additional CA certificates as PEM, or NULL; copied */
	const char *client_cert; /* our certificate and key for base's origin, or NULL; copied */
	const char *client_key;
	const char
		*certs_hint; /* where a CA certificate may be put, for messages; or NULL; copied */
	int connect_ms;
	int stall_ms; /* time without a byte after which the connection counts as broken */
	/* Called often, from any thread: non-zero ends the exchange with -ECANCELED. May be
	 * NULL. */
	int (*cancelled)(void *ctx);
	void *cancelled_ctx;
};

struct http *http_new(const struct http_options *opt);
void http_free(struct http *h);

/*
 * Run one exchange. A response of any status is success; the caller checks it.
 *
 * Returns 0; the sink's error; -ECANCELED; -EHOSTUNREACH (unknown host), -ECONNREFUSED and kin,
 * -ETIMEDOUT, -ECONNRESET (broke halfway), -EPERM (certificate), -EPROTO, -EACCES (a refused
 * redirect).
 */
int http_perform(struct http *h, struct http_exchange *x, struct mlr_error *err);
void http_exchange_done(struct http_exchange *x);

/* Sleep until the time is over or the exchange is cancelled. Returns 0 or -ECANCELED. */
int http_sleep(struct http *h, int64_t ms, struct mlr_error *err);
