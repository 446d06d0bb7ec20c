/* Limits what the command may use: resource limits, a control group; and raises mlrun's own file
 * limit until then. */
#pragma once

#include "plan/plan.h"

#include <sys/resource.h>

/* Raise the soft limit of open files if this plan needs more; old gets the caller's limits. Never
 * fails: if the limit stays too low, a later open fails. */
void limits_raise(const struct plan *p, struct rlimit *old);

/* Add to an -EMFILE error how many open files this plan needs. Returns r. */
int limits_hint(const struct plan *p, int r, struct mlr_error *err);

/* Set the command's limits: the caller's number of open files again, and the plan's. Fails with
 * -EPERM for a limit above the hard one, and names it. */
int limits_set(const struct plan *p, const struct rlimit *old, struct mlr_error *err);

/* --- cgroup.c: a control group for the command, where the user may make one --- */

/*
 * Put the calling process into a new control group with the plan's limits. Without any it makes one
 * only for plan->has_cgroup, in the caller's own group, and only where it can. Call it before the
 * namespaces are entered.
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

/* Move the calling process to the group that cgroup_enter() made for another one. Returns 0, also
 * if there is none, or -errno. */
int cgroup_join(pid_t pid);

/* Freeze that group, or let it go on; the kernel does it soon. Returns 0 or -errno, -ENOENT if
 * there is none. */
int cgroup_freeze(pid_t pid, int freeze);

/* Is it frozen by now? */
int cgroup_is_frozen(pid_t pid);

/* The absolute path below root, to free(), of the group in which cgroup_enter() would make a child.
 * For tests. */
int cgroup_find(const char *root, const struct plan *p, char **ret, struct mlr_error *err);
