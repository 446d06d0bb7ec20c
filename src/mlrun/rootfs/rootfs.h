/*
 * rootfs: finds or unpacks a stored image's tree, or adds the overlay to mount to a plan.
 */
#ifndef MLR_ROOTFS_ROOTFS_H
#define MLR_ROOTFS_ROOTFS_H

#include "base/config.h"
#include "base/error.h"
#include "plan/plan.h"
#include "store/facts.h"
#include "store/stores.h"

/*
 * Find an image and say in the plan what its root is made of.
 *
 *   store_dir  --store's value, or NULL for the default store
 *   c          the configuration, which names stores; NULL: it is read
 *   image      a name as Docker writes it, or "rootfs:PATH" for a plain directory, or
 *              "squashfs:FILE"
 *   p          gets lowers or squashfs, image, platform, image_user
 *   ret        the image's facts (empty for a plain directory or file), to store_facts_done()
 *   lease      take a lease on the image for the calling process
 *
 * Returns 0, -ENOENT with how to get the image, or what the store says.
 */
int rootfs_plan(const char *store_dir, const struct config *c, const char *image, int lease,
	struct plan *p, struct store_facts *ret, struct mlr_error *err);

/* The same for a manifest of this store: what it is made of, without a name. For this room's other
 * files, as is the next. */
int rootfs_plan_stored(struct store *st, const char *manifest, int lease, struct plan *p,
	struct store_facts *ret, struct mlr_error *err);

/* "not in the store …", with how to get the image: -ENOENT. */
int rootfs_not_here(const struct stores *all, const char *image, struct mlr_error *err);

#endif
