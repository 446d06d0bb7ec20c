/*
 * rootfs: finds or unpacks a stored image's tree, or adds the overlay to mount to a plan.
 */
#pragma once

#include "base/config.h"
#include "plan/plan.h"
#include "store/facts.h"
#include "store/stores.h"

/*
 * Find an image and describe its root in the plan.
 *
 *   store_dir  --store's value, or NULL for the default store
 *   c          the configuration, which names stores; NULL: it is read
 *   image      a name as Docker writes it, or "rootfs:PATH" for a plain directory, or
 *              "squashfs:FILE", "sif:FILE"
 *   p          gets lowers or squashfs, image, platform, image_user
 *   ret        the image's facts, to store_facts_done(); for a plain directory or file only what
 *              Enroot has written into it (oci/enroot.h)
 *   lease      take a lease on the image for the calling process
 *
 * Returns 0, -ENOENT with a hint on how to get the image, or the store's error.
 */
int rootfs_plan(const char *store_dir, const struct config *c, const char *image, int lease,
	struct plan *p, struct store_facts *ret, struct mlr_error *err);

/* The same for a manifest in this store, without a name. This and the next are for this room's
 * other files. */
int rootfs_plan_stored(struct store *st, const char *manifest, int lease, struct plan *p,
	struct store_facts *ret, struct mlr_error *err);

/* Fail with -ENOENT, "not in the store …", and a hint on how to get the image. */
int rootfs_not_here(const struct stores *all, const char *image, struct mlr_error *err);

/*
 * Unpack the image in a SIF or squashfs file, by unsquashfs(1).
 *
 *   dir     must not exist yet; what is in it after a failure is not whole
 *   cancel  as in spawn_wait_unless()
 *
 * Returns 0; -ECANCELED; -ENOENT where unsquashfs is not installed; errors of sif_find(); -EIO.
 */
int rootfs_unpack(const char *file, const char *dir, const int *cancel, struct mlr_error *err);
