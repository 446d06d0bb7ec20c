/*
 * Credential helpers: programs docker-credential-NAME on the PATH that keep secrets elsewhere,
 * spoken to by JSON on their standard input and output
 * (github.com/docker/docker-credential-helpers, "Development"). No secret is ever an argument. Each
 * call has a minute.
 */
#ifndef MLR_REGISTRY_HELPER_H
#define MLR_REGISTRY_HELPER_H

#include "base/error.h"
#include "registry/credential.h"

/* Returns 1; 0 when the helper knows nothing of that server; -ENOENT when there is no such program;
 * -ETIMEDOUT; -EIO with what the helper said. */
int helper_get(const char *name, const char *server, struct credential *ret, struct mlr_error *err);

/* Return 0, or as above. */
int helper_store(
	const char *name, const char *server, const struct credential *c, struct mlr_error *err);
int helper_erase(const char *name, const char *server, struct mlr_error *err);

#endif
