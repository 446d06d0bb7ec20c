/*
 * Fills a layer of the store from a function that writes its tar, instead of a download. The layer
 * has a tree, a record and notes like one that was pulled.
 */
#pragma once

#include "layer/record.h"
#include "oci/digest.h"
#include "store/store.h"

/* Writes a whole tar. It may be called several times, also in another thread, and must give the
 * same bytes each time. Returns 0, or -errno with err set. */
typedef int (*rootfs_tar_fn)(void *ctx, layer_write_fn write, void *to, struct mlr_error *err);

/* Hash the tar: gets its diff ID and its length. */
int rootfs_fill_digest(rootfs_tar_fn tar, void *ctx, char diff_id[OCI_DIGEST_SIZE], uint64_t *bytes,
	struct mlr_error *err);

/*
 * Put the tar into the store as the layer of this diff ID.
 *
 * Returns 0, also if the layer exists; -EBUSY if the bytes differ from before, because files
 * change; errors of layer_unpack() and store_tree_begin().
 */
int rootfs_fill(
	struct store *st, const char *diff_id, rootfs_tar_fn tar, void *ctx, struct mlr_error *err);

/* The same, with a layer of another store. -ENOENT if that store lacks its tree or record. */
int rootfs_fill_from(
	struct store *st, struct store *from, const char *diff_id, struct mlr_error *err);
