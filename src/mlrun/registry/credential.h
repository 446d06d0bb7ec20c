/*
 * Who we are at a registry: the user names and passwords that podman, skopeo, buildah and Docker
 * keep (containers-auth.json(5)), found as they find them, stored where podman does.
 *
 * Looked into, in this order, the first that has something wins:
 *
 *   the file named by --authfile, else by $REGISTRY_AUTH_FILE; when one is named no other is read
 *   $XDG_RUNTIME_DIR/containers/auth.json
 *   $XDG_CONFIG_HOME/containers/auth.json (~/.config)
 *   $DOCKER_CONFIG/config.json (~/.docker)
 *
 * In a file: the credential helper that it names for the registry, then the longest namespace that
 * has an entry ("quay.io/org/repo", "quay.io/org", "quay.io").
 *
 * A file whose secret others than its owner may read is refused, not used: whoever reads it is us.
 */
#ifndef MLR_REGISTRY_CREDENTIAL_H
#define MLR_REGISTRY_CREDENTIAL_H

#include "base/error.h"

struct credential {
	char *user, *password;
	char *identity_token; /* an OAuth2 refresh token, in place of the password; or NULL */
	char *origin;         /* where it was found, for messages */
};

#define CREDENTIAL_INIT                \
	{                              \
		NULL, NULL, NULL, NULL \
	}

/* Overwrites the secrets before they are freed. */
void credential_done(struct credential *c);

/* free() for a string that holds a secret; NULL is fine. */
void credential_free_secret(char *s);

/*
 * Find what to tell a registry.
 *
 *   authfile    of --authfile, or NULL
 *   registry    as names spell it, "docker.io"
 *   repository  "library/debian"
 *
 * Returns 1; 0 when there is nothing, which is no failure; -EACCES for a file that others may read
 * or that we may not; -ENOENT when a named file is missing, or a helper; -EPROTO; the helper's.
 */
int credential_find(const char *authfile, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err);

/*
 * Keep one, in the helper or in the file itself (mode 0600, replaced as one act, all else in it
 * kept).
 *
 *   key    "quay.io" or "quay.io/org"
 *   where  what holds it now, for messages; to free()
 */
int credential_store(const char *authfile, const char *key, const struct credential *c,
	char **where, struct mlr_error *err);

/* Forget one. Returns 0; -ENOENT when there is none, or only one of Docker's. */
int credential_erase(const char *authfile, const char *key, char **where, struct mlr_error *err);

#endif
