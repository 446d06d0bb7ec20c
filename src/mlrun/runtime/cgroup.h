/* A control group of the command's own, where the user may make one. */
#ifndef MLR_RUNTIME_CGROUP_H
#define MLR_RUNTIME_CGROUP_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Give the calling process the plan's cpus and memory (nothing to do when both are 0): a child of
 * the nearest control group above its own that has the controllers handed down and may be written
 * to (kernel, Documentation/admin-guide/cgroup-v2.rst, "Delegation"), as systemd makes for a user's
 * session. Before the namespaces are entered. Nobody stays behind to remove it: those whose last
 * process has ended are swept by the next.
 *
 *   root  "/" but for tests
 *
 * Returns 0; -ENOTSUP where the machine has no unified hierarchy or hands a controller to nobody;
 * -EACCES where it hands them to others; both with the way out.
 */
int cgroup_enter(const char *root, const struct plan *p, struct mlr_error *err);

/* The group above, an absolute path below root to free(): what cgroup_enter() would make the child
 * in. For tests. */
int cgroup_find(const char *root, const struct plan *p, char **ret, struct mlr_error *err);

#endif
