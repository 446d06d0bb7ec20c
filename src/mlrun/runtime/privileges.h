/* What the command may not have: capabilities, descriptors. */
#ifndef MLR_RUNTIME_PRIVILEGES_H
#define MLR_RUNTIME_PRIVILEGES_H

#include "base/error.h"
#include "plan/plan.h"

#include <stdint.h>

/* No new privileges for ever (prctl(2), PR_SET_NO_NEW_PRIVS), an empty ambient set, and no
 * capability but those a fake root needs over its one id, less plan->caps_dropped. Fatal when it
 * can't be done: never skipped. */
int privileges_drop(const struct plan *p, struct mlr_error *err);

/* The capabilities that privileges_drop() leaves: bit n is number n. */
uint64_t privileges_kept(const struct plan *p);

/* Let execve(2) close every descriptor above 2 but plan->keep_fds. */
int privileges_close_fds(const struct plan *p, struct mlr_error *err);

#endif
