/* Devices as users write them: /dev/x[:DST[:rwm]], and names of CDI's, vendor/class=name. */
#ifndef MLR_EXEC_DEVICE_H
#define MLR_EXEC_DEVICE_H

#include "base/error.h"
#include "base/strv.h"
#include "plan/plan.h"

/*
 * Add one --device to the plan: a device node of the host's, or a directory of them (/dev/dri).
 *
 * A name of CDI's is left to cdi_plan().
 *
 * Returns 0; -ENOENT; -ENODEV for a file that is no device or lies where devices do not work;
 * -EACCES where the caller may not open it, naming the group that may; -ENOTSUP for less than rwm:
 * who may do what with a node is decided by its mode.
 */
int device_plan(const char *text, struct plan *p, struct mlr_error *err);

/* The names of CDI's among the texts, each once. */
void device_cdi_names(const struct strv *texts, struct strv *ret);

#endif
