/* File systems of the container's own: the plan's mounts that are made of nothing of the host's, or
 * of a directory of it that must not change. */
#ifndef MLR_RUNTIME_FILESYSTEM_H
#define MLR_RUNTIME_FILESYSTEM_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/source.h"

/*
 * Mount one: PLAN_TMPFS with options, PLAN_DEVPTS, PLAN_OVERLAY, PLAN_PROC, PLAN_SYSFS,
 * PLAN_MQUEUE. Changes the working directory.
 *
 *   s        what sources_open() found
 *   scratch  directory of a tmpfs; what is written to an overlay goes to "overlay<i>" there
 *   target   the place, a path that goes through no links of the image's
 *
 * Returns 0 or -errno, with the way out where there is one.
 */
int filesystem_mount(const struct plan_mount *m, size_t i, const struct source *s, int scratch,
	const char *target, struct mlr_error *err);

#endif
