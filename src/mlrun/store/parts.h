/*
 * What images consist of, as paths below the store's top: "layers/<hex>", "cover/<hex>",
 * "dir/<hex>", "squash/<hex>.sqfs", "facts/<hex>.json", "blobs/sha256/<hex>". For this room's other
 * files.
 */
#ifndef MLR_STORE_PARTS_H
#define MLR_STORE_PARTS_H

#include "base/error.h"
#include "base/strv.h"
#include "store/image.h"
#include "store/store.h"

/* The parts of an image with a name, there or not. Without facts (an rm that was killed) its layers
 * are not known. Returns 0, or -EPROTO for damaged facts: their parts could not be spared. */
int store_parts_add_image(
	struct store *st, const struct store_image *im, struct strv *paths, struct mlr_error *err);

/*
 * Images without a name (it was given to a newer one, or they are being pulled): the parts of those
 * in use are added to keep, those of the others to go.
 *
 *   named  manifests that have a name
 */
int store_parts_add_nameless(struct store *st, const struct strv *named, struct strv *keep,
	struct strv *go, struct mlr_error *err);

/* Does a process run in the image, or may it, or is a container made of it? */
int store_parts_in_use(struct store *st, const char *manifest);

/* Is it among these digests (hex) by its name? */
int store_parts_spared(const struct strv *digests, const char *path);

#endif
