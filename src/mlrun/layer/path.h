/*
 * Resolves the names of tar members beneath a root. Nothing here leaves the root, whatever a name
 * or a symlink contains.
 */
#pragma once

#include "base/base.h"

/*
 * Clean a member's name: without leading and trailing '/', "." and empty components; "" is the top.
 *
 * Returns 0, -EPROTO for a name with ".." or NULL, -ENAMETOOLONG for one of PATH_MAX bytes or more
 * than LAYER_DEPTH_MAX components.
 */
int layer_path_clean(const char *name, char ret[PATH_MAX], struct mlr_error *err);

/* Called with each directory that was made: its path without symlinks, and whether it is opaque;
 * non-zero ends the walk. */
typedef int (*layer_made_fn)(void *ctx, const char *real, int opaque, struct mlr_error *err);

/*
 * Walk from root to a directory, following symlinks as if root were "/".
 *
 *   path  cleaned
 *   made  NULL: a missing directory is -ENOENT. Otherwise make missing ones, mode 0755, also behind
 *         dangling symlinks; a whiteout becomes an opaque directory
 *   real  gets the path without symlinks, "" for root; may be NULL
 *
 * Returns an O_PATH descriptor, or -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG.
 */
int layer_path_walk(int root, const char *path, layer_made_fn made, void *ctx, char real[PATH_MAX],
	struct mlr_error *err);

/* Is it a whiteout: a character device 0:0? */
int layer_whiteout_is(const struct stat *sb);

/* Hide a name in a directory. Returns 0; -EEXIST if the directory has the name; or another -errno.
 */
int layer_whiteout_make(int dir_fd, const char *name, struct mlr_error *err);

/* Hide everything that the layers below have in a directory, "." for dir_fd itself. */
int layer_opaque_set(int dir_fd, const char *name, struct mlr_error *err);

/* Does the directory (open for reading) hide everything below? */
int layer_opaque_is(int fd);
