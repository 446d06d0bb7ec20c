/*
 * Decides whether an overlay of an image's layer trees shows what applying the layers in order
 * gives (image-spec, layer.md: changesets are applied, not mounted), and what to do if not.
 *
 * A cover, a tree of only directories on top of the layers, corrects two differences: overlayfs
 * takes a directory's mode and time from the topmost tree that has it, and it hides whiteouts only
 * in merged directories. Other differences require the whole image as one tree (rootfs/flatten.h).
 */
#ifndef MLR_ROOTFS_STACKING_H
#define MLR_ROOTFS_STACKING_H

#include "base/base.h"
#include "store/store.h"

enum rootfs_stacking {
	ROOTFS_AS_IS,   /* an overlay of the layer trees shows the image */
	ROOTFS_COVERED, /* it does with a cover on top: a layer uses, without naming it, a directory
			 * that a lower one has with another mode or time; or a whiteout hides
			 * nothing */
	ROOTFS_FLAT,    /* it cannot: a layer uses, without naming it, a directory where a lower
			 * one has a symlink; or a layer's top is opaque, or a directory is
			 * unreadable */
};

/*
 * Classify an image.
 *
 *   diff_ids  lowest first; every tree must be in the store
 *   cover     gets the cover's directories, parents first
 *
 * Returns enum rootfs_stacking or -errno.
 */
int rootfs_stacking(
	struct store *st, const struct strv *diff_ids, struct strv *cover, struct mlr_error *err);

/* Make cover/<manifest>/tree with these directories. Returns 0 at once if it exists. */
int rootfs_cover(struct store *st, const char *manifest, const struct strv *diff_ids,
	const struct strv *dirs, struct mlr_error *err);

#endif
