/* Small documents, named by their digests: manifests, indexes, configurations. */
#ifndef MLR_STORE_BLOB_H
#define MLR_STORE_BLOB_H

#include "base/base.h"
#include "store/store.h"

/* Bytes; registries refuse larger manifests (distribution-spec, "Pushing Manifests"). */
#define STORE_BLOB_MAX (4u << 20)

/* Store a document. Returns 0, or -EBADMSG if the bytes do not hash to digest. A document that is
 * already there is replaced only if it is damaged. */
int store_blob_put(
	struct store *st, const char *digest, const void *buf, size_t len, struct mlr_error *err);

/* Read a document and check its hash; the bytes are the caller's to free(). len may be NULL.
 * Returns 0, -ENOENT, or -EBADMSG if the file was damaged. */
int store_blob_get(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err);

#endif
