/*
 * Authenticates to one registry (RFC 9110, 11; distribution-spec's token authentication, RFC 6749
 * for refresh tokens): with nothing, a password ("Basic"), or a token ("Bearer") from a token
 * server, with our credentials or anonymously. For this room's other files.
 *
 * Credentials are looked up only after the registry refuses a request. They are sent only to that
 * registry, or to a token server of the same site (libpsl) or one that mlrun.conf names. A token is
 * replaced some time before it expires. Thread-safe; threads that are refused at the same time
 * share one new token.
 */
#pragma once

#include "base/config.h"
#include "registry/credential.h"
#include "registry/http.h"

struct auth;

struct auth_options {
	struct http *http;           /* the caller's; must outlive the result */
	const char *registry;        /* the registry of the credentials, "docker.io" */
	const char *repository;      /* on that registry; "" for none */
	const char *authfile;        /* --authfile, or NULL */
	const struct config *config; /* or NULL */
	int64_t total_ms;            /* limit for the token server's response */
};

struct auth *auth_new(const struct auth_options *opt);
void auth_free(struct auth *a);

/* Use these credentials and look up none: for a login attempt. */
void auth_set(struct auth *a, const struct credential *c);

/*
 * The Authorization header for the next request, to credential_free_secret(); NULL if the registry
 * has not asked for one yet. If replacing an expiring token fails, returns the old header.
 */
char *auth_header(struct auth *a, const char *base);

/*
 * Get another header after the registry refused a request.
 *
 *   refused    the header that was sent, or NULL; returns 0 at once if another thread has replaced
 * it challenge  WWW-Authenticate, or NULL base       the registry's URL, against which the token
 * server's is checked transient  set to 1 if a retry may help
 *
 * Returns 0; -EACCES if no other credentials are left; -EPERM if we may not read a credentials file
 * or other users may; -EPROTO; http_perform()'s and credential_find()'s errors.
 */
int auth_renew(struct auth *a, const char *refused, const char *challenge, const char *base,
	int *transient, struct mlr_error *err);

/* The user whose credentials are in use, to free(), or NULL. */
char *auth_user(struct auth *a);

enum challenge_scheme { CHALLENGE_OTHER, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_scheme scheme;
	char *realm;   /* of Bearer: the token server's URL, not yet checked, never NULL */
	char *service; /* NULL when absent */
	char *scope;   /* NULL when absent */
};

#define CHALLENGE_INIT                            \
	{                                         \
		CHALLENGE_OTHER, NULL, NULL, NULL \
	}

/*
 * Parse a header's value. It may hold several challenges, separated by commas like their
 * parameters; the first Bearer with a realm wins, then Basic.
 *
 * Returns 0 or -EPROTO.
 */
int auth_challenge_parse(const char *value, struct challenge *ret, struct mlr_error *err);
void auth_challenge_done(struct challenge *c);
