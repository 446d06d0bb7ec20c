/* What a container that root starts does not get of the host's /proc and /sys. */
#ifndef MLR_EXEC_MASKS_H
#define MLR_EXEC_MASKS_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * To be called when the plan's last entry is /sys, after /proc: where root is the caller, /sys
 * becomes read-only, and what runc masks and makes read-only (runtime-spec's maskedPaths and
 * readonlyPaths, with the values of runc's and podman's defaults) is added, as far as the host has
 * it.
 *
 * The kernel lets root's user id write to /proc/sys, /proc/sysrq-trigger and /sys without a
 * capability; so nothing is added for others, not even a system call.
 */
int masks_plan(struct plan *p, struct mlr_error *err);

#endif
