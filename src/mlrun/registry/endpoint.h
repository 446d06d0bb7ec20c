/*
 * One host that serves a repository: the registry itself or a mirror. Holds its certificates and
 * credentials and, once it has responded, its scheme. For request.c.
 */
#pragma once

#include "registry/auth.h"
#include "registry/registry.h"

struct request;

struct endpoint {
	char *name;       /* "docker.io", "cache.example:5000" */
	char *repository; /* on that host: "library/debian", "dockerhub/library/debian" */
	int is_mirror;
	struct http *http;
	struct auth *auth;
	char *bases[2];   /* "https://registry-1.docker.io", and the other scheme if it may be tried
			   */
	int at;           /* index of the base in use; atomic */
	int settled;      /* a response arrived through it; atomic */
	int down;         /* it failed and is skipped; atomic */
	int served;       /* atomic */
	int64_t total_ms; /* limit for a document */
	struct mlr_error broken; /* the settings' error, which makes it unusable */
};

/*
 * host        "quay.io", "127.0.0.1:5000"
 *   repository  on that host
 */
struct endpoint *endpoint_new(const char *host, const char *repository, int is_mirror,
	const struct registry_options *opt);
void endpoint_free(struct endpoint *e);

/* Send a request once, authenticated and by the scheme that the endpoint speaks. Returns as
 * http_perform() and auth_renew(); a response of any status is success. */
int endpoint_try(struct endpoint *e, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);

/* Report a failed response. Returns as answer_fail(). */
int endpoint_fail(struct endpoint *e, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);
