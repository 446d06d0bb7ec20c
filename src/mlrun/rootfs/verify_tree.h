/* The parts of rootfs/verify.h that compare trees; only for verify.c. */
#pragma once

#include "store/store.h"

/*
 * Does a layer's tree still match the layer?
 *
 *   record_fd  its record, open for reading
 *   files      gets the first few wrong names and what is wrong with each
 *
 * Returns 0; -EBADMSG if it differs, with the reason in err; -errno if it could not be examined.
 */
int rootfs_verify_layer(
	const char *diff_id, int record_fd, int tree_fd, struct strv *files, struct mlr_error *err);

/*
 * Does every file of dir/<manifest>/tree belong to one of the layers? Compares inodes, since
 * flattening makes hard links, and else the bytes of the topmost layer's file of that name. Do its
 * names match the listing made with it (rootfs/listing.h)?
 *
 *   files  gets the first few wrong names
 *
 * Returns 0, or -EBADMSG; -errno if it could not be examined.
 */
int rootfs_verify_tree(struct store *st, const char *manifest, const struct strv *diff_ids,
	struct strv *files, struct mlr_error *err);

/* Does cover/<manifest>/tree hold only directories, and do they match the listing? Returns as
 * above. */
int rootfs_verify_cover(struct store *st, const char *manifest, struct mlr_error *err);
