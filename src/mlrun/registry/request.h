/*
 * One request to a registry, repeated until it succeeds: after transient failures, and at the next
 * host if a mirror fails. For this room's other files.
 */
#pragma once

#include "registry/endpoint.h"
#include "registry/retry.h"

struct registry {
	struct registry_options opt;
	char *name, *repository;     /* as in the reference */
	struct endpoint **endpoints; /* mirrors, then the registry itself */
	size_t n;
};

struct request {
	const char *path; /* below the repository: "manifests/latest" */
	const char *what; /* for messages: "tag 'latest'" */
	const char *url;  /* the whole URL instead, as a registry gave it; or NULL */
	int is_root;      /* "/v2/" itself instead */
	int head, want_manifest;
	int no_mirrors;
	int is_upload;                /* any status 2xx is success */
	const char *method;           /* as http_exchange's, and body */
	const struct http_body *body; /* or NULL */
	int is_patient; /* the answer may take long: the registry checks what it got */
	/* begin: before each try. end: after a response, which it may still reject. */
	void (*begin)(void *ctx, struct http_exchange *x);
	int (*end)(void *ctx, struct http_exchange *x, struct mlr_error *err);
	http_sink_fn sink;
	void *ctx;
	const uint64_t *received; /* bytes of size so far, if the sink counts them; else NULL */
	uint64_t size;
	const int *fatal; /* non-zero after a failure of our own instead of a host's; or NULL */
};

/* Try one host once. Returns 0; -errno, and x->transient if another try may help. */
int request_once(struct endpoint *e, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);

/* After such a failure, wait until the next try. reached: had the host responded before? Returns
 * 0; the failure, in err, if there should be none; -ECANCELED. */
int request_wait(struct registry *r, struct endpoint *e, const struct request *q,
	const struct http_exchange *x, int reached, struct retry *retry, struct mlr_error *err);

/* Returns 0 with status 200 or 206 in x; -errno as in registry.h. */
int request_run(struct registry *r, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);
