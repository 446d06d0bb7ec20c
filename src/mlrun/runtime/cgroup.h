/* A control group for the command, where the user may make one. */
#ifndef MLR_RUNTIME_CGROUP_H
#define MLR_RUNTIME_CGROUP_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Put the calling process into a new control group with the plan's cpus and memory limits. Does
 * nothing if both are 0. Call it before the namespaces are entered.
 *
 * The new group is a child of the nearest ancestor group that delegates the controllers and that
 * the user may write to (kernel, Documentation/admin-guide/cgroup-v2.rst, "Delegation"), such as
 * the one systemd makes for a user's session. No process stays to remove the group: a later call
 * removes the groups whose processes have ended.
 *
 *   root  "/" but for tests
 *
 * Returns 0; -ENOTSUP if the machine has no unified hierarchy or delegates a controller to no user;
 * -EACCES if it delegates them to other users. Both come with a hint.
 */
int cgroup_enter(const char *root, const struct plan *p, struct mlr_error *err);

/* The absolute path below root, to free(), of the group in which cgroup_enter() would make a child.
 * For tests. */
int cgroup_find(const char *root, const struct plan *p, char **ret, struct mlr_error *err);

#endif
