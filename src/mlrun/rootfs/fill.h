/*
 * A layer of the store made by somebody who writes its tar, rather than fetched: its tree, its
 * record and its notes are those of a layer that was pulled.
 */
#ifndef MLR_ROOTFS_FILL_H
#define MLR_ROOTFS_FILL_H

#include "base/error.h"
#include "layer/record.h"
#include "oci/digest.h"
#include "store/store.h"

#include <stdint.h>

/* Write a whole tar, to be called more than once and giving the same bytes each time. May be called
 * in another thread. Returns 0, or -errno with err set. */
typedef int (*rootfs_tar_fn)(void *ctx, layer_write_fn write, void *to, struct mlr_error *err);

/* What it hashes to, its diff ID, and its length. */
int rootfs_fill_digest(rootfs_tar_fn tar, void *ctx, char diff_id[OCI_DIGEST_SIZE], uint64_t *bytes,
	struct mlr_error *err);

/*
 * Put it into the store as the layer of this diff ID.
 *
 * Returns 0, also when the layer is there; -EBUSY when it gives other bytes than before, since its
 * files change; what layer_unpack() and store_tree_begin() return.
 */
int rootfs_fill(
	struct store *st, const char *diff_id, rootfs_tar_fn tar, void *ctx, struct mlr_error *err);

/* The same with a layer that another store has. -ENOENT where that has no tree or no record. */
int rootfs_fill_from(
	struct store *st, struct store *from, const char *diff_id, struct mlr_error *err);

#endif
