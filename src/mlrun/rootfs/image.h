/*
 * An image made of layers that the store has: what pull does when the last layer is there, and what
 * commit does with documents of its own making.
 */
#ifndef MLR_ROOTFS_IMAGE_H
#define MLR_ROOTFS_IMAGE_H

#include "base/error.h"
#include "oci/manifest.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/store.h"

/*
 * Judge the image's layers (rootfs/stacking.h) and make what they need beside their trees.
 *
 *   one_tree  make one tree of them in any case
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
	const char *source; /* store_image's, or NULL */
	int one_tree;
};

/* Give it a manifest and a name, the latter replacing any image's. store_hold() came before.
 *
 *   ret  to store_image_done()
 */
int rootfs_image_put(struct store *st, const char *name, const struct rootfs_image *im,
	struct store_image *ret, struct mlr_error *err);

#endif
