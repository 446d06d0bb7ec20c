/*
 * Makes an image from layers in the store: pull does so after the last layer, and commit with
 * documents of its own.
 */
#ifndef MLR_ROOTFS_IMAGE_H
#define MLR_ROOTFS_IMAGE_H

#include "base/error.h"
#include "oci/manifest.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/store.h"

/*
 * Check how the image's layers stack (rootfs/stacking.h) and make the extra trees they need.
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

#endif
