/*
 * Resolves the names of tar members beneath a root. Nothing here leaves the root, whatever a name
 * or a symlink contains.
 */
#ifndef MLR_LAYER_PATH_H
#define MLR_LAYER_PATH_H

#include "base/error.h"

#include <limits.h>

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

#endif
