/* System calls that the command may not make. */
#ifndef MLR_RUNTIME_SECCOMP_H
#define MLR_RUNTIME_SECCOMP_H

#include "base/error.h"
#include "plan/plan.h"

#include <stddef.h>

/* A compiled profile. */
struct seccomp {
	char *filter; /* struct sock_filter, size bytes of them; NULL: none */
	size_t size;
	unsigned flags; /* SECCOMP_FILTER_FLAG_..., seccomp(2) */
};

#define SECCOMP_INIT       \
	{                  \
		NULL, 0, 0 \
	}
void seccomp_done(struct seccomp *s);

/*
 * Read and compile the profile of plan->seccomp, an OCI profile (runtime-spec config-linux.md
 * "Seccomp") or Docker's or podman's form of it. Before the namespaces are entered, so that it may
 * lie anywhere on the host; by a program of its own, mlrun-seccomp, so that who has no profile does
 * not pay for it. Nothing to do without one.
 *
 * Returns 0; -EPROTO for a profile that is wrong, naming where; -ENOTSUP for one that asks for what
 * this build or kernel cannot do: never skipped; -E2BIG for one that makes too long a filter;
 * -ENOENT and the like for the file.
 */
int seccomp_prepare(const struct plan *p, struct seccomp *ret, struct mlr_error *err);

/*
 * Forbid for ever (seccomp(2)), to the process and its children:
 *
 *   ioctl TIOCSTI, TIOCLINUX   -EPERM: typing into the caller's terminal (CVE-2017-5226), on every
 *                              ABI that the kernel offers
 *
 * and what the profile says. no_new_privs must be set; last of all, as the profile may forbid
 * anything.
 */
int seccomp_apply(const struct seccomp *s, struct mlr_error *err);

#endif
