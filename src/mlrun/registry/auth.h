/*
 * How one registry is asked so that it answers (RFC 9110, 11; distribution-spec's token
 * authentication, RFC 6749 for refresh tokens): nothing, a password ("Basic"), or a token
 * ("Bearer") that a token server gives, to us by our credentials or to anyone. For this room's
 * other files.
 *
 * Credentials are looked for when a registry refuses, not before, and are told to that registry, or
 * to a token server of its own site (libpsl) or one that mlrun.conf names. A token is replaced a
 * while before it runs out. Any thread may call; several that were refused at once get one new
 * token.
 */
#ifndef MLR_REGISTRY_AUTH_H
#define MLR_REGISTRY_AUTH_H

#include "base/config.h"
#include "base/error.h"
#include "registry/credential.h"
#include "registry/http.h"

struct auth;

struct auth_options {
	struct http *http;           /* the caller's, as long as the result */
	const char *registry;        /* whose credentials, "docker.io" */
	const char *repository;      /* there; "" for none */
	const char *authfile;        /* --authfile, or NULL */
	const struct config *config; /* or NULL */
	int64_t total_ms;            /* for the token server's answer */
};

struct auth *auth_new(const struct auth_options *opt);
void auth_free(struct auth *a);

/* Use these and look for none: a login that is being tried. */
void auth_set(struct auth *a, const struct credential *c);

/*
 * The Authorization header for the next request, NULL when none was asked for yet; to be given to
 * credential_free_secret(). A failure to replace a token in time is none: the old one is given.
 */
char *auth_header(struct auth *a, const char *base);

/*
 * Get another header because a registry refused a request.
 *
 *   refused    the header that was sent, or NULL; 0 at once when another thread has replaced it
 *   challenge  WWW-Authenticate, or NULL
 *   base       the registry's URL, by which the token server's is judged
 *   transient  set to 1 when trying again may help
 *
 * Returns 0; -EACCES when there is no way in; -EPERM for a credentials file that we may not read or
 * others may; -EPROTO; http_perform()'s and credential_find()'s errors.
 */
int auth_renew(struct auth *a, const char *refused, const char *challenge, const char *base,
	int *transient, struct mlr_error *err);

/* The user whose credentials are in use, NULL: nobody's. To free(). */
char *auth_user(struct auth *a);

#endif
