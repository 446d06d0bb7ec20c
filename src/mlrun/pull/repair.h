/* Repair: removes what verifying found broken, and fetches it again. */
#pragma once

#include "pull/pull.h"
#include "rootfs/verify.h"
#include "store/store.h"

/* Callbacks for what was done; members may be NULL. */
struct repair_watch {
	void *ctx;
	void (*removed)(void *ctx, const char *path);
	/* write permission on path was taken from other users */
	void (*closed)(void *ctx, const char *path);
	/* path is kept, because this process runs in an image that needs it */
	void (*in_use)(void *ctx, const char *path, const char *image, long pid);
	void (*fetched)(void *ctx, const char *image);
	void (*failed)(void *ctx, const char *image, const struct mlr_error *err);
};

/*
 * Take other users' write permission from what the report lists as open. Rename away all else that
 * it lists, and pull the images that need it: by their old digests and names, from their old
 * sources. What no image needs is only removed; what images in use need is kept.
 *
 *   opt  as pull_image()'s, but for platform and as
 *
 * Returns 0 after trying everything, -ECANCELED as opt->cancel says; call rootfs_verify() to see
 * whether the store is whole now.
 */
int pull_repair(struct store *st, const struct rootfs_report *report,
	const struct pull_options *opt, const struct pull_watch *watch,
	const struct repair_watch *told, struct mlr_error *err);

/* The names of the images that need a path of the report, for messages. */
void pull_repair_needed_by(struct store *st, const char *path, struct strv *names);
