/*
 * Images in files: the kinds of sources that stand on files.h. For this room's other files.
 *
 * Every maker takes the files on success, which then go with the source, and tells what the image
 * is called there (to free(), NULL for nothing).
 */
#ifndef MLR_PULL_BUNDLE_H
#define MLR_PULL_BUNDLE_H

#include "base/error.h"
#include "oci/platform.h"
#include "pull/files.h"
#include "pull/source.h"

struct bundle {
	struct files *files;
	const char *which; /* REF, or NULL */
	const struct oci_platform *want;
	const struct plain_options *plain; /* outlives the source */
};

/* An OCI layout. Returns 0, -ENOENT, -EINVAL, -EPROTO and so on, as oci_layout_choose(). */
int bundle_layout(struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err);

/* What docker save writes. */
int bundle_docker(struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err);

/* A tar of a root directory: an image of one layer without a configuration of its own. fd stays
 * the caller's. */
int bundle_rootfs(int fd, const struct oci_platform *platform, const struct plain_options *plain,
	struct pull_source **ret, struct mlr_error *err);

/* "sha256:<hex>" of a buffer. */
void bundle_digest(const void *buf, size_t len, char digest[OCI_DIGEST_SIZE]);

/* Do these bytes have the digest, and so many are they? 0 or -EBADMSG. */
int bundle_check(const char *digest, const void *buf, size_t len, struct mlr_error *err);

#endif
