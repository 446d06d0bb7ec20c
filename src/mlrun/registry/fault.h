/*
 * Why an exchange came to nothing: libcurl's result as a sentence that tells one cause from another
 * (no such host, nobody listening, a proxy, each kind of bad certificate, a broken line), and the
 * way out. docs/pull-failures.md lists them. For http.c.
 */
#ifndef MLR_REGISTRY_FAULT_H
#define MLR_REGISTRY_FAULT_H

#include "base/error.h"
#include "registry/http.h"

#include <curl/curl.h>

struct fault {
	CURL *curl; /* after the failure */
	CURLcode code;
	const char *words;      /* libcurl's own, "" when it has none */
	const char *url;        /* that was asked */
	const char *certs_hint; /* http_options' */
};

/* Sets x->transient, unreached, other_protocol. Returns -errno as http_perform() says. */
int fault_fail(const struct fault *f, struct http_exchange *x, struct mlr_error *err);

#endif
