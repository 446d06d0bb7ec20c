/* System calls that the command may not make. */
#ifndef MLR_RUNTIME_SECCOMP_H
#define MLR_RUNTIME_SECCOMP_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Forbid for ever (seccomp(2)), to the process and its children:
 *
 *   ioctl TIOCSTI, TIOCLINUX   -EPERM: typing into the caller's terminal (CVE-2017-5226), on every
 *                              ABI that the kernel offers
 *
 * and, with plan->seccomp, what that file's OCI profile says (runtime-spec config-linux.md "Seccomp",
 * or Docker's form of it with includes and excludes). no_new_privs must be set.
 *
 * Returns 0; -EPROTO for a profile that is wrong, naming where; -ENOTSUP for one that asks for what
 * this build or kernel cannot do: never skipped.
 */
int seccomp_apply(const struct plan *p, struct mlr_error *err);

/* Read the profile of plan->seccomp before the namespaces are entered, so that it may lie anywhere on
 * the host. Nothing to do without one. */
int seccomp_prepare(const struct plan *p, struct mlr_error *err);

#endif
