/*
 * rootfs: finds or unpacks a stored image's tree, or adds the overlay to mount to a plan.
 *
 * This header: a whole image as one tree, for images whose overlay of layer trees would not be what
 * applying the layers in order gives, and for places where overlay can't be mounted.
 */
#ifndef MLR_ROOTFS_FLATTEN_H
#define MLR_ROOTFS_FLATTEN_H

#include "base/error.h"
#include "base/strv.h"
#include "layer/unpack.h"
#include "store/store.h"
#include "store/tree.h"

/*
 * Put beside a layer's tree what the two functions below ask of it, before it is published: the
 * notes "implicit" and "hiding", the lists of struct layer_result with a NUL after each path.
 */
int rootfs_layer_note(struct store_tree *t, const struct layer_result *r, struct mlr_error *err);

/*
 * Would an overlay of these layer trees differ from the layers applied in order? That is so when a
 * layer uses a directory without naming it and a lower layer has there a directory of another mode
 * or time, or a symlink (image-spec, layer.md: changesets are applied, not mounted). Also when a
 * whiteout hides nothing (overlayfs then lists its name) and when a layer's top is opaque
 * (overlayfs does not look).
 *
 *   diff_ids  lowest first; every tree must be in the store
 *
 * Returns 1, 0 or -errno.
 */
int rootfs_needs_flatten(struct store *st, const struct strv *diff_ids, struct mlr_error *err);

/*
 * Make dir/<manifest>/tree by applying the layer trees in order. Regular files become hard links
 * of the layers' files where the file system allows, so that a flattened image costs directories
 * only. Already there: 0 at once.
 */
int rootfs_flatten(struct store *st, const char *manifest, const struct strv *diff_ids,
	struct mlr_error *err);

#endif
