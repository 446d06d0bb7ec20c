/*
 * A container whose root keeps what is written: the image that it was made of, and its own
 * directory on top (store/container.h).
 */
#ifndef MLR_ROOTFS_KEPT_H
#define MLR_ROOTFS_KEPT_H

#include "base/error.h"
#include "oci/ref.h"
#include "plan/plan.h"
#include "store/facts.h"
#include "store/stores.h"

/*
 * rootfs_plan() for --write.
 *
 *   image  as a user wrote it. It must be the one that the container was made of, by its name or
 *          its manifest; the container keeps its manifest when the name has gone over to another
 *   name   the container's, or "": rootfs_kept_name() of the image
 *   use    make the container when it is not there, and say in the store that this process uses it
 *          and its image; else only look
 *   p      also gets root, kept, share and a note on which container it is
 *
 * Returns 0; -ENOENT for an image that is not in the store, -ENXIO for a container's; -EEXIST for a
 * container of another image; -EBUSY for one that another node uses; -ENOTSUP for a plain directory
 * or file, which has no manifest to come back to.
 */
int rootfs_kept_plan(const char *store_dir, const struct config *c, const char *image,
	const char *name, int use, struct plan *p, struct store_facts *ret, struct mlr_error *err);

/* What a container of an image is called when nobody says: "debian-12" for
 * docker.io/library/debian:12, "debian" for the tag latest, "debian-0123456789ab" for a digest. To
 * free(). */
char *rootfs_kept_name(const struct oci_ref *ref);

/*
 * Hint how to have an image again: by its digest, since its name may have gone to another.
 *
 *   options  of mlrun pull or import, each with a blank behind it
 *
 * Returns as mlr_hint().
 */
int rootfs_kept_hint(
	const char *image, const char *manifest, const char *options, struct mlr_error *err);

/*
 * Find what a container is made of in one of these stores, with a name or without.
 *
 *   name, image, manifest  as its record says
 *   st                     stays theirs
 *
 * Returns 0, or -ENXIO with the way to have it again.
 */
int rootfs_kept_image(const struct stores *all, const char *name, const char *image,
	const char *manifest, struct store **st, struct store_facts *ret, struct mlr_error *err);

#endif
