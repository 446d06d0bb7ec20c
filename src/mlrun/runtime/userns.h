/* The user and mount namespace of one container. */
#ifndef MLR_RUNTIME_USERNS_H
#define MLR_RUNTIME_USERNS_H

#include "base/error.h"
#include "plan/plan.h"

/* Enter a new user namespace with the one id mapping of id, and a new mount namespace from
 * which nothing propagates to the host (host mounts do still appear in it: autofs needs that). */
int userns_enter(const struct plan_identity *id, struct mlr_error *err);

/* The same in a user namespace that others made and the process has entered (runtime/share.h). */
int userns_enter_shared(struct mlr_error *err);

/* The bits of enum plan_namespace as clone(2)'s flags. */
int userns_clone_flags(unsigned namespaces);

/* Then, the plan's other namespaces, with the hostname and loopback that they are to have; a PID
 * namespace is the children's. */
int userns_add(const struct plan *p, struct mlr_error *err);

#endif
