/*
 * Runs credential helpers: programs docker-credential-NAME on the PATH that keep secrets elsewhere.
 * They speak JSON on standard input and output (github.com/docker/docker-credential-helpers,
 * "Development"). Secrets are never arguments. Each call has a time limit of a minute.
 */
#ifndef MLR_REGISTRY_HELPER_H
#define MLR_REGISTRY_HELPER_H

#include "registry/credential.h"

/* Get credentials. Returns 1; 0 if the helper has none for that server; -ENOENT if there is no such
 * program; -ETIMEDOUT; -EIO with the helper's message. */
int helper_get(const char *name, const char *server, struct credential *ret, struct mlr_error *err);

/* Store or erase credentials. Return 0, or as above. */
int helper_store(
	const char *name, const char *server, const struct credential *c, struct mlr_error *err);
int helper_erase(const char *name, const char *server, struct mlr_error *err);

#endif
