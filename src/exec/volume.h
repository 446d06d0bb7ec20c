/* Volumes as users write them: SRC[:DST[:FLAGS]]. */
#ifndef MLR_EXEC_VOLUME_H
#define MLR_EXEC_VOLUME_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Add one -v to the plan. SRC may be relative; it must exist. DST is SRC's absolute name unless
 * given. FLAGS, separated by commas: ro, rw, nosuid, nodev, noexec; and accepted without effect,
 * because mlrun mounts so anyway or has no use for them: z, Z, rbind, bind, rprivate, private,
 * rslave, slave.
 */
int volume_plan(const char *text, struct plan *p, struct mlr_error *err);

#endif
