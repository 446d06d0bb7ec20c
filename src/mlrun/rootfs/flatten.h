/*
 * rootfs: finds or unpacks a stored image's tree, or adds the overlay to mount to a plan.
 *
 * This header: flattens a whole image into one tree, for images whose layers overlayfs would not
 * show as applying them in order does, and for places where an overlay cannot be mounted.
 */
#pragma once

#include "layer/unpack.h"
#include "store/tree.h"

/*
 * Write the notes "implicit" and "hiding" beside a layer's tree before it is published, for
 * rootfs_stacking() and rootfs_flatten(): the lists of struct layer_result with a NUL after each
 * path.
 */
int rootfs_layer_note(struct store_tree *t, const struct layer_result *r, struct mlr_error *err);

/*
 * Make dir/<manifest>/tree by applying the layer trees in order. Regular files become hard links to
 * the layers' files if the file system allows, so that a flattened image costs only directories.
 * Returns 0 at once if the tree exists.
 */
int rootfs_flatten(
	struct store *st, const char *manifest, const struct strv *diff_ids, struct mlr_error *err);
