/*
 * Parses and prints auth.json (containers-auth.json(5)) and Docker's config.json. No I/O.
 *
 *   { "auths": { "quay.io/org": { "auth": base64("user:password") },
 *                "https://index.docker.io/v1/": { "auth": …, "identitytoken": … },
 *                "ghcr.io": { "username": …, "password": … } },
 *     "credHelpers": { "ghcr.io": "pass" }, "credsStore": "secretservice" }
 *
 * Names and passwords in clear are Kubernetes' way.
 */
#pragma once

#include "registry/credential.h"

#define AUTHFILE_MAX (1u << 20) /* bytes */

struct authfile;

/* Parse the text; an empty text is an empty file. Returns 0, -EPROTO or -EFBIG. */
int authfile_parse(const char *text, size_t len, struct authfile **ret, struct mlr_error *err);
void authfile_free(struct authfile *f);

MLR_CLEANUP(authfile_cleanup, struct authfile *, authfile_free);

/*
 * Find the entry with the longest matching namespace: "registry/a/b", "registry/a", "registry", or
 * one of Docker's old spellings of a registry as a URL. Ignores entries without a secret.
 *
 * Returns 1 (ret's origin is not set), 0 if there is none, or -EPROTO if the entry is malformed.
 */
int authfile_find(const struct authfile *f, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err);

/* The credential helper for a registry: the name after "docker-credential-", or NULL. *is_default
 * is 1 if it is the helper for all registries. Borrowed. */
const char *authfile_helper(const struct authfile *f, const char *registry, int *is_default);

/* base64 of "user:password" (RFC 7617), to credential_free_secret(). */
char *authfile_encode(const char *user, const char *password);

/* Set the entry for a key. */
void authfile_set(struct authfile *f, const char *key, const struct credential *c);
/* Remove the entries for a key in all its spellings. Returns their number. */
int authfile_unset(struct authfile *f, const char *key);

/* Print the text, to credential_free_secret(). */
char *authfile_text(const struct authfile *f);

/* The name for a registry in Docker's tools and helpers: a URL for docker.io. */
const char *authfile_docker_key(const char *registry);
