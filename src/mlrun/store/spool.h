/*
 * Spools: the compressed bytes of a big layer while they arrive, "tmp/spool-<hex>", so that a later
 * process goes on at the byte where this one was killed; and blobs that are kept.
 */
#ifndef MLR_STORE_SPOOL_H
#define MLR_STORE_SPOOL_H

#include "base/error.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

/* A spool that nobody has written to for so long is swept. */
#define STORE_SPOOL_SECONDS (3 * 24 * 3600)

struct store_spool;

/*
 * Open the spool of a blob, or begin one. Waits while another live process has it.
 *
 *   size  the blob's; a spool that is longer is begun anew
 */
int store_spool_open(struct store *st, const char *digest, uint64_t size, struct store_spool **ret,
	struct mlr_error *err);

/* The file, open for reading and writing, and how many bytes are in it. Nobody has checked them. */
int store_spool_fd(const struct store_spool *s);
uint64_t store_spool_have(const struct store_spool *s);

int store_spool_append(struct store_spool *s, const void *buf, size_t len, struct mlr_error *err);

/* The ends of it; each frees s, NULL is fine. The bytes are right and whole: they become the
 * store's blob. They are not needed, or wrong: they go. There may be more to come, some time: they
 * stay. */
int store_spool_keep(struct store_spool *s, struct mlr_error *err);
void store_spool_drop(struct store_spool *s);
void store_spool_leave(struct store_spool *s);

/* A kept blob of this size, open for reading; its bytes are for the caller to hash. -ENOENT. */
int store_blob_open(struct store *st, const char *digest, uint64_t size);

/* 1 where store_blob_open() would open it, else 0. */
int store_blob_is_kept(struct store *st, const char *digest, uint64_t size);

/* A blob whose bytes were wrong. */
void store_blob_drop(struct store *st, const char *digest);

#endif
