/* Hides parts of the host's /proc and /sys from a container of root. */
#pragma once

#include "plan/plan.h"

/*
 * Call it when /proc and /sys are in the plan. If the caller is root, make /sys read-only, and mask
 * or make read-only what runc does (runtime-spec's maskedPaths and readonlyPaths, with the values
 * of runc's and podman's defaults), as far as the host has it.
 *
 * The kernel lets root's uid write to /proc/sys, /proc/sysrq-trigger and /sys without a capability.
 * For other callers nothing is added, and no system call is made.
 */
int masks_plan(struct plan *p, struct mlr_error *err);
