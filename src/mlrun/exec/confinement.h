/* What the user's options take from the command or leave it: namespaces, limits, capabilities,
 * descriptors. */
#ifndef MLR_EXEC_CONFINEMENT_H
#define MLR_EXEC_CONFINEMENT_H

#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* The descriptors that --preserve-fds and --preserve-fd name. First of all, before one of ours
 * could be taken for one. Returns 0, -EINVAL, or -EBADF for one that is not open. */
int confinement_fds(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --pid, --init, --ipc, --net, --hostname, --seccomp, --ulimit, --cpus, --memory and --cap-drop.
 * Returns 0, -EINVAL, -EPERM. */
int confinement_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

#endif
