/*
 * One host that a repository can be had from: the registry itself, or a mirror of it. It knows its
 * scheme once something answered, its certificates, and what it is told of us. For request.c.
 */
#ifndef MLR_REGISTRY_ENDPOINT_H
#define MLR_REGISTRY_ENDPOINT_H

#include "base/error.h"
#include "registry/auth.h"
#include "registry/http.h"
#include "registry/registry.h"

struct request;

struct endpoint {
	char *name;       /* "docker.io", "cache.example:5000" */
	char *repository; /* there: "library/debian", "dockerhub/library/debian" */
	int is_mirror;
	struct http *http;
	struct auth *auth;
	char *bases[2];   /* "https://registry-1.docker.io", and the other scheme where it may be
			     tried */
	int at;           /* which of them is in use; atomic */
	int settled;      /* some response came by it; atomic */
	int down;         /* it failed and is passed over; atomic */
	int served;       /* atomic */
	int64_t total_ms; /* for a document */
	struct mlr_error broken; /* why it cannot be used at all: its settings are wrong */
};

/*
 *   host        "quay.io", "127.0.0.1:5000"
 *   repository  there
 */
struct endpoint *endpoint_new(const char *host, const char *repository, int is_mirror,
	const struct registry_options *opt);
void endpoint_free(struct endpoint *e);

/* Send a request once: with what the endpoint wants to be told, and by the scheme that it speaks.
 * Returns as http_perform() and auth_renew(); a response of any status is success. */
int endpoint_try(struct endpoint *e, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);

/* A response that is a failure, as a sentence. Returns as answer_fail(). */
int endpoint_fail(struct endpoint *e, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);

#endif
