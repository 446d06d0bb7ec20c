/*
 * The parts of images, as paths below the store's top: "layers/<hex>", "cover/<hex>", "dir/<hex>",
 * "squash/<hex>.sqfs", "facts/<hex>.json", "blobs/sha256/<hex>". For the files of this room.
 */
#ifndef MLR_STORE_PARTS_H
#define MLR_STORE_PARTS_H

#include "base/base.h"
#include "store/image.h"
#include "store/store.h"

/* Add the parts of a named image, whether they exist or not. Without facts (a killed rm) its layers
 * are unknown. Returns 0, or -EPROTO for damaged facts, whose parts could not be spared. */
int store_parts_add_image(
	struct store *st, const struct store_image *im, struct strv *paths, struct mlr_error *err);

/*
 * Add the parts of images without a name (it was given to a newer image, or they are being pulled):
 * of those in use to keep, of the others to go. The build cache's layers are to keep, too.
 *
 *   named  manifests that have a name
 */
int store_parts_add_nameless(struct store *st, const struct strv *named, struct strv *keep,
	struct strv *go, struct mlr_error *err);

/* Does a process or a container use the image, as far as can be seen? */
int store_parts_in_use(struct store *st, const char *manifest);

/* Do these digests (hex) include the one that the path names? */
int store_parts_spared(const struct strv *digests, const char *path);

#endif
