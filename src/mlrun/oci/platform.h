/*
 * Parses and compares platforms, OS/ARCH[/VARIANT] with Go's names (OCI image-spec, image-index.md,
 * "platform").
 */
#pragma once

#include "base/base.h"

#define OCI_PLATFORM_SIZE 64 /* room for "os/arch/variant" and a NUL */

struct oci_platform {
	char os[20], arch[20], variant[20]; /* variant is "" if none, and for arm64's "v8" */
};

/* This machine's platform, by uname(2): "x86_64" is linux/amd64, "armv7l" linux/arm/v7. */
void oci_platform_host(struct oci_platform *ret);

/* Parse "linux/amd64" or "linux/arm/v7"; the kernel's names (x86_64, aarch64) work, too. Returns 0
 * or -EINVAL. */
int oci_platform_parse(const char *text, struct oci_platform *ret, struct mlr_error *err);

/* Make a platform from an image's fields; NULL and "" mean unset. Overlong fields match nothing. */
void oci_platform_set(
	struct oci_platform *p, const char *os, const char *arch, const char *variant);

/*
 * How well an image for `have` serves a request for `want`: 0 not at all, higher is better.
 * An older variant runs on a newer machine (arm/v6 on v7, amd64/v1 on v3), not the other way round.
 */
int oci_platform_match(const struct oci_platform *want, const struct oci_platform *have);

void oci_platform_print(const struct oci_platform *p, char out[OCI_PLATFORM_SIZE]);
