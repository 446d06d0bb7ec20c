/*
 * The caches of builds and pushes. An entry is named by its key, a digest of all that it depends
 * on; its time of modification is its last use.
 *
 *   cache/<hex>.json    one of
 *       {"layer": diff ID, "size": bytes of its tar, "created": seconds since 1970}
 *           the layer that a step of a build made
 *       {"content": sha256}
 *           what was computed of files with certain inodes and times
 *       {"blob": digest, "bytes": its size, "places": ["registry/repository", ...]}
 *           what a layer became when it was compressed for a push, and where it has been seen
 *   cache/mounts/<hex>  a directory of RUN --mount=type=cache, named by the sha256 of its id
 *
 * A layer stays in the store while a step that was used within STORE_CACHE_DAYS names it.
 */
#pragma once

#include "oci/digest.h"
#include "store/store.h"

#define STORE_CACHE_DAYS 30

struct store_cached {
	char diff_id[OCI_DIGEST_SIZE]; /* "": the step wrote nothing */
	uint64_t size;
	int64_t created;
};

/* Find a step, and note that it was used. Returns 0; -ENOENT, also if its layer is gone. */
int store_cache_get(struct store *st, const char *key, struct store_cached *ret);

/* Remember a step. Returns 0, -ENOSPC and the like. */
int store_cache_put(
	struct store *st, const char *key, const struct store_cached *step, struct mlr_error *err);

/* Find the result for files with these inodes and times. Returns 0 or -ENOENT. */
int store_cache_content_get(struct store *st, const char *key, char hex[HASH_HEX_SIZE]);
int store_cache_content_put(
	struct store *st, const char *key, const char *hex, struct mlr_error *err);

/* The descriptor of a layer that was compressed. */
struct store_cache_blob {
	char digest[OCI_DIGEST_SIZE];
	uint64_t size;
	struct strv places; /* "registry/repository", the newest last */
};

void store_cache_blob_done(struct store_cache_blob *b);

/* Returns 0 or -ENOENT. */
int store_cache_blob_get(struct store *st, const char *key, struct store_cache_blob *ret);
int store_cache_blob_put(
	struct store *st, const char *key, const struct store_cache_blob *b, struct mlr_error *err);

/* Make or find the directory of a cache, and note that it was used. Returns 0 and its absolute
 * path, to free(). */
int store_cache_mount(struct store *st, const char *id, char **ret, struct mlr_error *err);

/* Append "layers/<hex>" of the steps' layers to keep, and remove steps and directories that were
 * not used for long. For store/removal.c. */
void store_cache_keep(struct store *st, struct strv *keep);
