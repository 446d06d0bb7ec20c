/*
 * Where a registry may send us. A URL from a server (a redirect, a token server) is taken when it
 * is https, or when it stays with who we already talk to; plain http to another party only between
 * loopback addresses. User names in URLs are refused.
 */
#ifndef MLR_REGISTRY_URL_H
#define MLR_REGISTRY_URL_H

#include "base/error.h"

/* Same scheme, host and port? What one may see the other may then see. 0 for what is no URL. */
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
 * Suffix List: registry.example.org and auth.example.org, not a.github.io and b.github.io)?
 * Whoever holds a password for the one may be asked for it by the other.
 */
int url_same_site(const char *a, const char *b);

/* The URL's host, without a port. To free(). */
char *url_host(const char *url);

/* "name=value", encoded, for a form; after an '&' where form is not empty. Replaces *form. */
void url_add_field(char **form, const char *name, const char *value);

/* url with "name=value" appended to its query, encoded. NULL when url is none. To free(). */
char *url_add_query(const char *url, const char *name, const char *value);

#endif
