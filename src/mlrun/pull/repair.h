/*
 * Repair: what verifying found broken is taken away and fetched again.
 */
#ifndef MLR_PULL_REPAIR_H
#define MLR_PULL_REPAIR_H

#include "base/error.h"
#include "pull/pull.h"
#include "rootfs/verify.h"
#include "store/store.h"

/* What was done, for whoever tells it; members may be NULL. */
struct repair_watch {
	void *ctx;
	void (*removed)(void *ctx, const char *path);
	/* path was closed to other users */
	void (*closed)(void *ctx, const char *path);
	/* path stays, as this process runs in an image that needs it */
	void (*in_use)(void *ctx, const char *path, const char *image, long pid);
	void (*fetched)(void *ctx, const char *image);
	void (*failed)(void *ctx, const char *image, const struct mlr_error *err);
};

/*
 * Close what others may write to, rename away every other finding of the report, and pull the
 * images that need it: by the digests that they had, under the names that they have, from where
 * they came. What no image needs is only removed; what images in use need stays as it is.
 *
 *   opt  as pull_image()'s, but for platform and as
 *
 * Returns 0 when all was attempted, -ECANCELED as opt->cancel says; whether the store is whole now
 * is for rootfs_verify() to say.
 */
int pull_repair(struct store *st, const struct rootfs_report *report,
	const struct pull_options *opt, const struct pull_watch *watch,
	const struct repair_watch *told, struct mlr_error *err);

/* The names of the images that need a path of the report, for people. */
void pull_repair_needed_by(struct store *st, const char *path, struct strv *names);

#endif
