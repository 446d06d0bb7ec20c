/* Resolves a path in an image. For mlrun-squashfuse's own files. */
#ifndef MLR_SQUASHFS_SERVER_PATH_H
#define MLR_SQUASHFS_SERVER_PATH_H

#include "squashfs/server_image.h"

struct image_place {
	struct stat st;
	uint64_t dir;        /* the parent directory's number */
	char path[PATH_MAX]; /* the path without links */
};

enum image_follow { IMAGE_NOFOLLOW, IMAGE_FOLLOW }; /* a link at the path's end */

/*
 * Resolve a path from the image's root. Links are followed inside the image, and ".." at the root
 * stays there.
 *
 * Returns 0; -ENOENT, with path set unless the last component is too long; -ELOOP, -ENAMETOOLONG,
 * -EIO.
 */
int image_resolve(
	struct image *im, const char *path, enum image_follow last, struct image_place *ret);

#endif
