/* Looking into an image's root without mounting it. */
#ifndef MLR_ROOTFS_LOOKUP_H
#define MLR_ROOTFS_LOOKUP_H

#include "base/error.h"
#include "plan/explain.h"
#include "plan/plan.h"

#include <stddef.h>

/*
 * Open a file as the overlay of plan->lowers would show it: whiteouts and opaque directories hide
 * what is below them, links are followed inside.
 *
 *   path  absolute
 *
 * Returns an O_PATH descriptor; -ENOENT when the image has no such thing; -ENOTSUP for a squashfs
 * file, which cannot be looked into; -ELOOP.
 */
int rootfs_lookup(const struct plan *p, const char *path, struct mlr_error *err);

/* The text of a regular file found so, of at most max bytes, to free(). Returns as above, -EFBIG,
 * or -ENOENT for what is no regular file. */
int rootfs_read(
	const struct plan *p, const char *path, size_t max, char **ret, struct mlr_error *err);

/*
 * What --explain tells of a path (plan/explain.h): nothing changes and nothing is mounted.
 *
 *   follow_last  follow a link at its end
 *   ret          zeroed; stays PLAN_THERE_UNKNOWN for a squashfs file and where this user may not look
 */
void rootfs_look(const struct plan *p, const char *path, int follow_last, struct plan_seen *ret);

#endif
