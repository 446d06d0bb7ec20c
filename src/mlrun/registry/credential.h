/*
 * Finds credentials for registries: the user names and passwords that podman, skopeo, buildah and
 * Docker keep (containers-auth.json(5)). Stores new ones where podman does.
 *
 * The first of these with an entry wins:
 *
 *   the file named by --authfile, else by $REGISTRY_AUTH_FILE; if one is named, no other is read
 *   $XDG_RUNTIME_DIR/containers/auth.json
 *   $XDG_CONFIG_HOME/containers/auth.json (~/.config)
 *   $DOCKER_CONFIG/config.json (~/.docker)
 *
 * In a file: the credential helper for the registry, then the longest namespace with an entry
 * ("quay.io/org/repo", "quay.io/org", "quay.io").
 *
 * A secret in a file that other users may read is refused, since any of them could act as this
 * user.
 */
#pragma once

#include "base/base.h"

struct credential {
	char *user, *password;
	char *identity_token; /* an OAuth2 refresh token, in place of the password; or NULL */
	char *origin;         /* where it was found, for messages */
};

/* Overwrites the secrets before they are freed. */
void credential_done(struct credential *c);

/* free() for a string that holds a secret; NULL is fine. */
void credential_free_secret(char *s);

/*
 * Find the credentials for a registry.
 *
 *   authfile    of --authfile, or NULL
 *   registry    as names spell it, "docker.io"
 *   repository  "library/debian"
 *
 * Returns 1; 0 if there are none, which is not an error; -EACCES if other users may read the file
 * or we may not; -ENOENT if a named file or a helper is missing; -EPROTO; the helper's errors.
 */
int credential_find(const char *authfile, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err);

/*
 * Store credentials in the helper or in the file itself (mode 0600, replaced atomically, other
 * content kept).
 *
 *   key    "quay.io" or "quay.io/org"
 *   where  the place that holds them now, for messages; to free()
 */
int credential_store(const char *authfile, const char *key, const struct credential *c,
	char **where, struct mlr_error *err);

/* Remove credentials. Returns 0; -ENOENT if there are none, or only Docker's. */
int credential_erase(const char *authfile, const char *key, char **where, struct mlr_error *err);
