/*
 * Whether an overlay of an image's layer trees shows what applying the layers in order gives
 * (image-spec, layer.md: changesets are applied, not mounted), and what to do where it does not.
 *
 * Two things are mended by a cover, a tree of directories alone that lies above the layers:
 * overlayfs takes a directory's mode and time from the topmost tree that has it, and hides
 * whiteouts only in directories that it merges. Others need the whole image as one tree
 * (rootfs/flatten.h).
 */
#ifndef MLR_ROOTFS_STACKING_H
#define MLR_ROOTFS_STACKING_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

enum rootfs_stacking {
	ROOTFS_AS_IS,   /* an overlay of the layer trees is the image */
	ROOTFS_COVERED, /* it is with a cover on top: a layer uses a directory without naming it and
			 * a lower one has it with another mode or time; or a whiteout hides nothing
			 */
	ROOTFS_FLAT,    /* it never is: a layer uses a directory without naming it where a lower one
			 * has    a symlink; or its top is opaque, or a    directory cannot be read */
};

/*
 * Judge an image.
 *
 *   diff_ids  lowest first; every tree must be in the store
 *   cover     gets the cover's directories, parents first
 *
 * Returns enum rootfs_stacking or -errno.
 */
int rootfs_stacking(
	struct store *st, const struct strv *diff_ids, struct strv *cover, struct mlr_error *err);

/* Make cover/<manifest>/tree of these directories. Already there: 0 at once. */
int rootfs_cover(struct store *st, const char *manifest, const struct strv *diff_ids,
	const struct strv *dirs, struct mlr_error *err);

#endif
