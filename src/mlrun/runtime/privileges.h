/* Takes from the command what it must not have: capabilities and descriptors. */
#pragma once

#include "plan/plan.h"

/* Set no_new_privs (prctl(2), PR_SET_NO_NEW_PRIVS), empty the ambient set, and drop all
 * capabilities but plan->caps, or else those that a fake root needs over its one id, less
 * plan->caps_dropped. A failure is fatal, never ignored. */
int privileges_drop(const struct plan *p, struct mlr_error *err);

/* The capabilities that privileges_drop() leaves to a fake root; bit n is capability n. */
uint64_t privileges_kept(const struct plan *p);

/* Let execve(2) close every descriptor above 2 but plan->keep_fds. */
int privileges_close_fds(const struct plan *p, struct mlr_error *err);
