/* The user and mount namespace of one container. */
#ifndef MLR_RUNTIME_USERNS_H
#define MLR_RUNTIME_USERNS_H

#include "base/error.h"
#include "plan/plan.h"

/* Enter a new user namespace with the one id mapping of plan->id, and a new mount namespace from
 * which nothing propagates to the host (host mounts do still appear in it: autofs needs that), and
 * those of plan->namespaces. */
int userns_enter(const struct plan *p, struct mlr_error *err);

/* The same in a user namespace that others made and the process has entered (runtime/share.h). */
int userns_enter_shared(const struct plan *p, struct mlr_error *err);

#endif
