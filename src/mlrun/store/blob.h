/*
 * Small documents by digest: manifests, indexes, configurations.
 */
#ifndef MLR_STORE_BLOB_H
#define MLR_STORE_BLOB_H

#include "base/error.h"
#include "store/store.h"

#include <stddef.h>

/* Bytes; registries refuse larger manifests (distribution-spec, "Pushing Manifests"). */
#define STORE_BLOB_MAX (4u << 20)

/* Returns 0, or -EBADMSG when the bytes do not hash to digest. Putting twice is fine. */
int store_blob_put(
	struct store *st, const char *digest, const void *buf, size_t len, struct mlr_error *err);

/* The bytes, hashed again on the way out, to free(). Returns 0, -ENOENT, -EBADMSG. */
int store_blob_get(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err);

#endif
