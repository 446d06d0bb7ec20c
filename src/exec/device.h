/* Devices as users write them: /dev/x[:DST[:rwm]]. */
#ifndef MLR_EXEC_DEVICE_H
#define MLR_EXEC_DEVICE_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Add one --device to the plan: a device node of the host's, or a directory of them (/dev/dri).
 *
 * Returns 0; -ENOENT; -ENODEV for a file that is no device or lies where devices do not work;
 * -EACCES where the caller may not open it, naming the group that may; -ENOTSUP for a CDI name, and
 * for less than rwm: who may do what with a node is decided by its mode.
 */
int device_plan(const char *text, struct plan *p, struct mlr_error *err);

#endif
