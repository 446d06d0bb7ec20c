/* All that the user's options mount: --tmpfs, -v, --mount, --device. */
#ifndef MLR_EXEC_USERS_MOUNTS_H
#define MLR_EXEC_USERS_MOUNTS_H

#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* Add them to the plan, a directory before what lies in it, else in the order of the options.
 * Returns 0 or what is wrong with one, which names it. */
int users_mounts_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

#endif
