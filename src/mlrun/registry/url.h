/*
 * Checks URLs from a server (redirects, token servers). They must use https or stay at an origin in
 * use already; plain http to another origin is allowed only between loopback addresses. User names
 * in URLs are refused.
 */
#pragma once

#include "base/base.h"

/* Do two URLs have the same scheme, host and port? Then they may share secrets. 0 if one is
 * invalid. */
int url_same_origin(const char *a, const char *b);

/* Is the URL's host a loopback address (127.0.0.0/8, ::1, localhost)? */
int url_is_loopback(const char *url);

/* The URL's "host" or "host:port", for messages. To free(). */
char *url_authority(const char *url);

/* May a redirect from the registry at base lead to url? Returns 0, or -EACCES, -EPROTO and why. */
int url_check_redirect(const char *url, const char *base, struct mlr_error *err);

/* May the registry at base name url as its token server? Returns as above. */
int url_check_realm(const char *url, const char *base, struct mlr_error *err);

/*
 * Do two URLs belong to one site: the same host, or hosts below one registrable domain (the Public
 * Suffix List: registry.example.org and auth.example.org, not a.github.io and b.github.io)? Then a
 * password for one may go to the other.
 */
int url_same_site(const char *a, const char *b);

/* The URL's host, without a port. To free(). */
char *url_host(const char *url);

/* Append "name=value", encoded, to a form; after an '&' unless the form is empty. Replaces
 * *form. */
void url_add_field(char **form, const char *name, const char *value);

/* The URL that a Location header's reference means, seen from base (RFC 3986, 5). To free(); NULL
 * if it is invalid. */
char *url_join(const char *base, const char *reference);

/* url with "name=value" appended to its query, encoded, to free(). NULL if url is invalid. */
char *url_add_query(const char *url, const char *name, const char *value);
