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
 * Put beside a layer's tree what rootfs_stacking() and
 * rootfs_flatten() ask of it, before it is published: the
 * notes "implicit" and "hiding", the lists of struct layer_result with a NUL after each path.
 */
int rootfs_layer_note(struct store_tree *t, const struct layer_result *r, struct mlr_error *err);

/*
 * Make dir/<manifest>/tree by applying the layer trees in order. Regular files become hard links
 * of the layers' files where the file system allows, so that a flattened image costs directories
 * only. Already there: 0 at once.
 */
int rootfs_flatten(
	struct store *st, const char *manifest, const struct strv *diff_ids, struct mlr_error *err);

#endif
