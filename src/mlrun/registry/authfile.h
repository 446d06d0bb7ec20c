/*
 * The text of an auth.json (containers-auth.json(5)) or of Docker's config.json. Does no I/O.
 *
 *   { "auths": { "quay.io/org": { "auth": base64("user:password") },
 *                "https://index.docker.io/v1/": { "auth": …, "identitytoken": … } },
 *     "credHelpers": { "ghcr.io": "pass" }, "credsStore": "secretservice" }
 */
#ifndef MLR_REGISTRY_AUTHFILE_H
#define MLR_REGISTRY_AUTHFILE_H

#include "base/error.h"
#include "registry/credential.h"

#include <stddef.h>

#define AUTHFILE_MAX (1u << 20) /* bytes */

struct authfile;

/* Returns 0, -EPROTO or -EFBIG. An empty text is an empty file. */
int authfile_parse(const char *text, size_t len, struct authfile **ret, struct mlr_error *err);
void authfile_free(struct authfile *f);

static inline void authfile_cleanup(struct authfile **f)
{
	authfile_free(*f);
}

/*
 * The entry for the longest namespace: "registry/a/b", "registry/a", "registry", and Docker's old
 * spellings of a registry as a URL. An entry without a secret is none.
 *
 * Returns 1 (ret's origin is not set), 0 for none, or -EPROTO for one that is malformed.
 */
int authfile_find(const struct authfile *f, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err);

/* Who keeps the registry's secrets: the name behind "docker-credential-", or NULL. *is_default is 1
 * when it is the one for all registries. Borrowed. */
const char *authfile_helper(const struct authfile *f, const char *registry, int *is_default);

/* Put an entry in place of what is there for the key. */
void authfile_set(struct authfile *f, const char *key, const struct credential *c);
/* Returns how many entries went: those of this key, however spelt. */
int authfile_unset(struct authfile *f, const char *key);

/* The text, to be given to credential_free_secret(). */
char *authfile_text(const struct authfile *f);

/* The name by which Docker's tools and helpers know a registry: a URL for docker.io. */
const char *authfile_docker_key(const char *registry);

#endif
