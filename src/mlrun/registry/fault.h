/*
 * Turns libcurl's result into a sentence that distinguishes the causes (unknown host, refused
 * connection, a proxy, each kind of bad certificate, a broken connection), with a hint.
 * docs/pull-failures.md lists them. For http.c.
 */
#pragma once

#include "registry/http.h"

#include <curl/curl.h>

struct fault {
	CURL *curl; /* after the failure */
	CURLcode code;
	const char *words;      /* libcurl's own message, or "" */
	const char *url;        /* the requested URL */
	const char *certs_hint; /* http_options' */
	int has_authorities;    /* whether there were certificates to trust */
};

/* Sets x->transient, unreached, other_protocol. Returns -errno as http_perform() says. */
int fault_fail(const struct fault *f, struct http_exchange *x, struct mlr_error *err);
