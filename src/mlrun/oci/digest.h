/*
 * Checks digests, "sha256:<64 lower-case hex>" (OCI image-spec, descriptor.md, "Digests"). A digest
 * from a server is checked here before it becomes part of a path or URL (CVE-2024-3727).
 */
#pragma once

#include "base/base.h"

#define OCI_DIGEST_SIZE 72 /* "sha256:" + 64 + NUL */

/* Check a digest. Returns 0, -EINVAL for malformed text, -ENOTSUP for an algorithm other than
 * sha256. */
int oci_digest_check(const char *digest, struct mlr_error *err);

/* The 64 hex digits of a checked digest; points into the argument. */
const char *oci_digest_hex(const char *digest);
