/*
 * One question to a registry, asked until it is answered: again after what may pass, and of the
 * next host when a mirror fails. For this room's other files.
 */
#ifndef MLR_REGISTRY_REQUEST_H
#define MLR_REGISTRY_REQUEST_H

#include "base/error.h"
#include "registry/endpoint.h"
#include "registry/http.h"
#include "registry/registry.h"

#include <stddef.h>
#include <stdint.h>

struct registry {
	struct registry_options opt;
	char *name, *repository;     /* as in the reference */
	struct endpoint **endpoints; /* mirrors, then the registry itself */
	size_t n;
};

struct request {
	const char *path; /* below the repository: "manifests/latest" */
	const char *what; /* for messages: "tag 'latest'" */
	int is_root;      /* "/v2/" itself instead */
	int head, want_manifest;
	int no_mirrors;
	/* Before each try, and after an answered one, which may still be called a failure. */
	void (*begin)(void *ctx, struct http_exchange *x);
	int (*end)(void *ctx, struct http_exchange *x, struct mlr_error *err);
	http_sink_fn sink;
	void *ctx;
	const uint64_t *received; /* bytes of size so far, where the sink counts them; else NULL */
	uint64_t size;
	const int *fatal; /* not 0 after a failure that is our own and no host's; or NULL */
};

/* Returns 0 with a status of 200 or 206 in x; -errno as registry.h says. */
int request_run(struct registry *r, const struct request *q, struct http_exchange *x,
	struct mlr_error *err);

#endif
