/* Resource limits: the command's, and room for our own descriptors until then. */
#ifndef MLR_RUNTIME_LIMITS_H
#define MLR_RUNTIME_LIMITS_H

#include "base/error.h"
#include "plan/plan.h"

#include <sys/resource.h>

/* Let this process open the files that this plan takes, should the caller's soft limit be too low;
 * old gets what he had. Never fails: with too few, opening does. */
void limits_raise(const struct plan *p, struct rlimit *old);

/* Add to an error of opening, -EMFILE, how many this plan takes. Returns r. */
int limits_hint(const struct plan *p, int r, struct mlr_error *err);

/* The command's own: the caller's number of files again, and what the plan says. Fails with -EPERM
 * for a limit above the hard one, which it names. */
int limits_set(const struct plan *p, const struct rlimit *old, struct mlr_error *err);

#endif
