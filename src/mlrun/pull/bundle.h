/*
 * Images in files: the kinds of sources that use files.h. For this room's other files.
 *
 * On success each function takes over the files and frees them with the source. *said gets the
 * image's name in the file, to free(), or NULL.
 */
#pragma once

#include "oci/platform.h"
#include "pull/files.h"
#include "pull/source.h"

struct bundle {
	struct files *files;
	const char *which; /* REF, or NULL */
	const struct oci_platform *want;
	const struct plain_options *plain; /* outlives the source */
};

/* An OCI layout. Returns 0, or -ENOENT, -EINVAL, -EPROTO and so on, as oci_layout_choose(). */
int pull_bundle_layout(
	struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err);

/* An archive from docker save. */
int pull_bundle_docker(
	struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err);

/* A tar of a root directory: an image of one layer without a configuration of its own. fd stays the
 * caller's. */
int pull_bundle_rootfs(int fd, const struct oci_platform *platform,
	const struct plain_options *plain, struct pull_source **ret, struct mlr_error *err);
