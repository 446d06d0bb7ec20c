/* Forbids system calls to the command. */
#pragma once

#include "plan/plan.h"

/* A compiled profile. */
struct seccomp {
	char *filter; /* struct sock_filter, size bytes of them; NULL: none */
	size_t size;
	unsigned flags; /* SECCOMP_FILTER_FLAG_..., seccomp(2) */
};

void seccomp_done(struct seccomp *s);

/*
 * Read and compile the profile plan->seccomp: an OCI profile (runtime-spec config-linux.md
 * "Seccomp"), or Docker's or podman's form of it. Does nothing without one. Call it before the
 * namespaces are entered, so that the file may lie anywhere on the host. A separate program,
 * mlrun-seccomp, compiles it, so that a start without a profile does not load libseccomp.
 *
 * Returns 0; -EPROTO if the profile is wrong, naming the place; -ENOTSUP if it needs what this
 * build or kernel lacks, which is never skipped; -E2BIG if its filter is too long; -ENOENT and the
 * like for the file.
 */
int seccomp_prepare(const struct plan *p, struct seccomp *ret, struct mlr_error *err);

/*
 * Forbid for good (seccomp(2)), to the process and its children:
 *
 *   ioctl TIOCSTI, TIOCLINUX   -EPERM: typing into the caller's terminal (CVE-2017-5226), on every
 *                              ABI that the kernel offers
 *
 * and what the profile forbids. no_new_privs must be set. Call it last, as the profile may forbid
 * anything.
 */
int seccomp_apply(const struct seccomp *s, struct mlr_error *err);
