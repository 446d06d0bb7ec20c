/*
 * Makes an image from layers in the store: pull does so after the last layer, and commit with
 * documents of its own.
 */
#pragma once

#include "oci/manifest.h"
#include "store/facts.h"
#include "store/image.h"

/*
 * Check how the image's layers stack (below) and make the extra trees they need.
 *
 *   one_tree  flatten the image in any case
 *   f         its config's diff_ids are the layers; gets formats, covered and open, which is empty
 *
 * Returns 0 or -errno.
 */
int rootfs_image_stack(struct store *st, const char *manifest, int one_tree, struct store_facts *f,
	struct mlr_error *err);

struct rootfs_image {
	const char *config;             /* the configuration, text; its layers are in the store */
	const struct oci_layer *layers; /* n of them, lowest first */
	size_t n;
	const char *source; /* as in store_image, or NULL */
	int one_tree;
};

/*
 * Store a manifest for the image and give it a name, which may belong to another image so far. Call
 * store_hold() first.
 *
 *   name  NULL: the image gets none, and stays until rm or prune removes what has no name
 *   ret  to store_image_done()
 */
int rootfs_image_put(struct store *st, const char *name, const struct rootfs_image *im,
	struct store_image *ret, struct mlr_error *err);

/*
 * Decides whether an overlay of an image's layer trees shows what applying the layers in order
 * gives (image-spec, layer.md: changesets are applied, not mounted), and what to do if not.
 *
 * A cover, a tree of only directories on top of the layers, corrects two differences: overlayfs
 * takes a directory's mode and time from the topmost tree that has it, and it hides whiteouts only
 * in merged directories. Other differences require the whole image as one tree (rootfs/flatten.h).
 */

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
