/*
 * Seccomp profiles: OCI runtime-spec config-linux.md "Seccomp", and what Docker's and podman's
 * files have besides (moby, profiles/seccomp; containers-common, seccomp.json): archMap, includes,
 * excludes, names of errors. Compiled by libseccomp; linked into mlrun-seccomp alone.
 */
#ifndef MLR_RUNTIME_PROFILE_H
#define MLR_RUNTIME_PROFILE_H

#include "base/error.h"

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_MAX (1u << 20) /* bytes */

/* What includes and excludes are judged by. */
struct profile_for {
	uint64_t caps;    /* bit n: the command has capability n */
	const char *arch; /* as Go names it: "amd64", "arm64" */
	int kernel[2];    /* 6, 1 */
};

/* This machine's architecture and kernel. */
void profile_for_here(struct profile_for *ret);

/*
 * Turn a profile's text into a filter, to seccomp_release().
 *
 * Names of system calls that libseccomp does not know are passed over, as runc does: kernels and
 * libraries are of different age.
 *
 * Returns 0; -EPROTO for a profile that is wrong, naming the member; -ENOTSUP for one that asks for
 * what cannot be done here: a listener, an architecture of a foreign kind.
 */
int profile_load(const char *text, size_t len, const struct profile_for *f, scmp_filter_ctx *ret,
	struct mlr_error *err);

#endif
