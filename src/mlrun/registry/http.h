/*
 * One HTTP exchange over libcurl: request, redirects, response headers, body into a sink. Knows
 * neither retries nor tokens. For this room's other files.
 *
 * HTTP/1.1 with connections that are kept: handles are, between exchanges, and each has its own.
 * HTTP/2 costs a third more CPU (curl 7.88, 400 MB from docker-registry over TLS: 0.39 s against
 * 0.29), and what it saves is connections, of which a pull has as many as layers under way.
 *
 * Any thread may start an exchange.
 */
#ifndef MLR_REGISTRY_HTTP_H
#define MLR_REGISTRY_HTTP_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct http;

/* Takes body bytes of a 200 or 206. Returns 0, or -errno with err set to end the exchange. */
typedef int (*http_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

struct http_exchange {
	/* Asked by the caller; all borrowed. */
	const char *url;
	const char *base;          /* the registry's own URL, by which redirects are judged */
	int head;                  /* HEAD instead of GET */
	const char *accept;        /* or NULL */
	const char *authorization; /* "Bearer …", "Basic …" or NULL; for url's origin only, whatever
				    * redirects say */
	const char *post;  /* a form, which makes it a POST that follows no redirects; or NULL */
	int64_t total_ms;  /* the longest that all of it may take, 0: no limit */
	uint64_t from;     /* first byte wanted; not 0: asked for with Range */
	http_sink_fn sink; /* may be NULL with head */
	void *sink_ctx;

	/* Told by the exchange. */
	int status;          /* of the last response; 0 when none came */
	int redirected;      /* the last response came from another origin than url's */
	int transient;       /* after a failure: may work when tried again */
	int unreached;       /* after a failure: no connection came about */
	int other_protocol;  /* after a failure: the peer answered, but not in this scheme */
	int64_t length;      /* Content-Length, -1 when absent */
	uint64_t first;      /* of a 206: where Content-Range begins */
	int64_t retry_after; /* seconds, -1 when absent */
	char *content_type, *authenticate; /* headers or NULL */
	char *digest;                      /* the header Docker-Content-Digest, or NULL */
	char *link;                        /* the header Link, or NULL */
	char *quota, *quota_left;          /* the headers RateLimit-Limit and -Remaining, or NULL */
	char *problem; /* up to 16 KiB of the body of another status than 200, 206; or NULL */
};

struct http_options {
	int tls_verify;
	const char *ca;          /* PEM of CA certificates beside the usual ones, or NULL; copied */
	const char *client_cert; /* files by which base's origin knows us, or NULL; copied */
	const char *client_key;
	const char
		*certs_hint; /* where a CA certificate may be put, for messages; or NULL; copied */
	int connect_ms;
	int stall_ms; /* without a byte for so long the connection counts as broken */
	/* Asked often, from any thread: not 0 ends with -ECANCELED. May be NULL. */
	int (*cancelled)(void *ctx);
	void *cancelled_ctx;
};

struct http *http_new(const struct http_options *opt);
void http_free(struct http *h);

/*
 * Run one exchange. A response of any status is success, to be judged by the caller.
 *
 * Returns 0; the sink's error; -ECANCELED; -EHOSTUNREACH (no such host), -ECONNREFUSED and kin,
 * -ETIMEDOUT, -ECONNRESET (broke half-way), -EPERM (certificate), -EPROTO, -EACCES (a redirect
 * that was refused).
 */
int http_perform(struct http *h, struct http_exchange *x, struct mlr_error *err);
void http_exchange_done(struct http_exchange *x);

/* Sleep, ended by cancel. Returns 0 or -ECANCELED. */
int http_sleep(struct http *h, int64_t ms, struct mlr_error *err);

#endif
