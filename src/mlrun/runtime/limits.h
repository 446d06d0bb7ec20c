/* Resource limits: the command's, and a higher file limit for mlrun until then. */
#ifndef MLR_RUNTIME_LIMITS_H
#define MLR_RUNTIME_LIMITS_H

#include "base/error.h"
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

#endif
