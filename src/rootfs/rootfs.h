/*
 * rootfs: finds or unpacks a stored image's tree, or adds the overlay to mount to a plan.
 */
#ifndef MLR_ROOTFS_ROOTFS_H
#define MLR_ROOTFS_ROOTFS_H

#include "base/error.h"
#include "plan/plan.h"
#include "store/facts.h"

/*
 * Find an image and say in the plan what its root is made of.
 *
 *   store_dir  --store's value, or NULL for the default store
 *   image      a name as Docker writes it, or "rootfs:PATH" for a plain directory, or
 *              "squashfs:FILE"
 *   p          gets lowers or squashfs, image, platform, image_user
 *   ret        the image's facts (empty for a plain directory or file), to store_facts_done()
 *   lease      take a lease on the image for the calling process
 *
 * Returns 0, -ENOENT with how to get the image, or what the store says.
 */
int rootfs_plan(const char *store_dir, const char *image, int lease, struct plan *p,
	struct store_facts *ret, struct mlr_error *err);

#endif
