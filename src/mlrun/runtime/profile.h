/*
 * Seccomp profiles: OCI runtime-spec config-linux.md "Seccomp", with the extensions of Docker's and
 * podman's files (moby, profiles/seccomp; containers-common, seccomp.json): archMap, includes,
 * excludes, errno names. libseccomp compiles them; only mlrun-seccomp links this.
 */
#pragma once

#include "base/base.h"

#include <seccomp.h>

#define PROFILE_MAX (1u << 20) /* bytes */

/* The conditions that includes and excludes test. */
struct profile_for {
	uint64_t caps;    /* bit n: the command has capability n */
	const char *arch; /* as Go names it: "amd64", "arm64" */
	int kernel[2];    /* major, minor: 6, 1 */
};

/* The values for this machine. */
void profile_for_here(struct profile_for *ret);

/*
 * Turn a profile's text into a filter, to seccomp_release().
 *
 * System calls that libseccomp does not know are skipped, as runc does, since kernels and libraries
 * differ in age.
 *
 * Returns 0; -EPROTO if the profile is wrong, naming the member; -ENOTSUP if it needs a listener or
 * a foreign architecture.
 */
int profile_load(const char *text, size_t len, const struct profile_for *f, scmp_filter_ctx *ret,
	struct mlr_error *err);
