/* The user and mount namespace of one container. */
#pragma once

#include "plan/plan.h"

/* Enter a new user namespace with the single id mapping of id, and a new mount namespace whose
 * mounts do not propagate to the host. Host mounts still appear in it: autofs needs that. */
int userns_enter(const struct plan_identity *id, struct mlr_error *err);

/* The same, in an existing user namespace: an open file of proc(5), or -1 if the process has
 * entered it (runtime/share.h). */
int userns_enter_shared(const struct plan *p, int userns, struct mlr_error *err);

/* Translate enum plan_namespace bits into clone(2)'s flags. A new namespace is a line here. */
int userns_clone_flags(unsigned namespaces);

/* Then enter the plan's other namespaces and set the hostname and loopback. A PID namespace takes
 * effect for children. */
int userns_add(const struct plan *p, struct mlr_error *err);
