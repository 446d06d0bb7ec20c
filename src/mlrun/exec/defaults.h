/* What the section [exec] of mlrun.conf says, where no option says otherwise. */
#ifndef MLR_EXEC_DEFAULTS_H
#define MLR_EXEC_DEFAULTS_H

#include "base/config.h"
#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* Mount the volumes of the configuration, of origin "site" or "config". A source that is not there
 * is an error that names file and line, unless the volume has the flag "optional". c may be NULL.
 */
int defaults_volumes(const struct config *c, struct plan *p, struct mlr_error *err);

#endif
