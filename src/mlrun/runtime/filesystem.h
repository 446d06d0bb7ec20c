/* File systems made for the container: the plan's mounts with no source on the host, and overlays
 * over a host directory that must not change. */
#ifndef MLR_RUNTIME_FILESYSTEM_H
#define MLR_RUNTIME_FILESYSTEM_H

#include "plan/plan.h"
#include "runtime/source.h"

/*
 * Mount one: PLAN_TMPFS with options, PLAN_DEVPTS, PLAN_OVERLAY, PLAN_PROC, PLAN_SYSFS,
 * PLAN_MQUEUE. Changes the working directory.
 *
 *   s        what sources_open() found
 *   scratch  directory of a tmpfs; what is written to an overlay goes to "overlay<i>" there
 *   target   where to mount; a path that contains no links of the image
 *
 * Returns 0 or -errno, with a hint where there is one.
 */
int filesystem_mount(const struct plan_mount *m, size_t i, const struct source *s, int scratch,
	const char *target, struct mlr_error *err);

#endif
