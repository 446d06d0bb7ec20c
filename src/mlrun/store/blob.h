/*
 * Blobs, named by their digests: small documents (manifests, indexes, configurations), large layers
 * that are kept as they came, and spools, "tmp/spool-<hex>": the compressed bytes of a large layer
 * while they arrive. A later process continues where a killed one stopped.
 */
#pragma once

#include "store/store.h"

/* The age, since the last write, at which a spool is swept. */
#define STORE_SPOOL_SECONDS (3 * 24 * 3600)

struct store_spool;

/*
 * Open a blob's spool, or make one. Waits while another live process has it.
 *
 *   size  the blob's; a longer spool is emptied
 */
int store_spool_open(struct store *st, const char *digest, uint64_t size, struct store_spool **ret,
	struct mlr_error *err);

/* The file, open for reading and writing, and the bytes in it, which are not verified. */
int store_spool_fd(const struct store_spool *s);
uint64_t store_spool_have(const struct store_spool *s);

int store_spool_append(struct store_spool *s, const void *buf, size_t len, struct mlr_error *err);

/* Close a spool; each frees s, and NULL is fine. keep: the bytes are complete and verified, and
 * become the store's blob. drop: delete them. leave: keep them for a later process. */
int store_spool_keep(struct store_spool *s, struct mlr_error *err);
void store_spool_drop(struct store_spool *s);
void store_spool_leave(struct store_spool *s);

/* Open a kept blob of this size for reading; the caller verifies its bytes. Returns -ENOENT without
 * one. */
int store_blob_open(struct store *st, const char *digest, uint64_t size);

/* Would store_blob_open() open it? 1 or 0. */
int store_blob_is_kept(struct store *st, const char *digest, uint64_t size);

/* Delete a damaged blob. */
void store_blob_drop(struct store *st, const char *digest);

/* Store a document. Returns 0, or -EBADMSG if the bytes do not hash to digest. A document that is
 * already there is replaced only if it is damaged. */
int store_blob_put(
	struct store *st, const char *digest, const void *buf, size_t len, struct mlr_error *err);

/* Read a document and check its hash; the bytes are the caller's to free(). len may be NULL.
 * Returns 0, -ENOENT, or -EBADMSG if the file was damaged. */
int store_blob_get(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err);
