/*
 * What it means when a registry answers with another status than 200 (distribution-spec, "Error
 * Codes"): one sentence that says what is wrong and, where the user can act, how.
 */
#ifndef MLR_REGISTRY_ANSWER_H
#define MLR_REGISTRY_ANSWER_H

#include "base/error.h"
#include "registry/http.h"

/*
 *   registry    as the user wrote it, "docker.io"
 *   repository  "library/debian"
 *   what        "tag 'latest'", "blob sha256:…": what was asked for
 *
 * Sets x->transient. Returns -ENOENT (404), -EACCES (401, 403), -EBUSY (429), -EPROTO or -EIO.
 */
int answer_fail(struct http_exchange *x, const char *registry, const char *repository,
	const char *what, struct mlr_error *err);

/* The same for a 401 that no token can cure; err holds why. */
int answer_refused(const char *registry, const char *repository, struct mlr_error *err);

#endif
