/* A command in a container that is there already: exec --join PID. */
#ifndef MLR_EXEC_JOIN_H
#define MLR_EXEC_JOIN_H

#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/*
 * Plan a command beside the process o->join: its container, its working directory (unless -w), its
 * environment as it was when it started, changed by --env-file, -e and --unset-env.
 *
 * Returns 0; -ESRCH; -EPERM for a process that may not be looked at; -EINVAL for one that is in no
 * container of mlrun's, for a missing command, and for options that would change what the container
 * is.
 */
int join_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

#endif
