/*
 * Names of tar members, and directories beneath a root that they lead to. Nothing here ever leaves
 * the root, whatever a name or a symlink says.
 */
#ifndef MLR_LAYER_PATH_H
#define MLR_LAYER_PATH_H

#include "base/error.h"

#include <limits.h>

/*
 * A member's name without leading '/', "." and empty components and trailing '/'; "" is the top.
 *
 * Returns 0, -EPROTO for a name with ".." or a NULL one, -ENAMETOOLONG for one of PATH_MAX bytes or
 * deeper than LAYER_DEPTH_MAX.
 */
int layer_path_clean(const char *name, char ret[PATH_MAX], struct mlr_error *err);

/* Told of each directory that was made, by its path without symlinks, and whether it is opaque;
 * non-zero ends the walk. */
typedef int (*layer_made_fn)(void *ctx, const char *real, int opaque, struct mlr_error *err);

/*
 * Walk from root to a directory, following symlinks as if root were "/".
 *
 *   path  cleaned
 *   made  NULL: a missing directory is -ENOENT. Else missing ones are made, mode 0755, also where a
 *         symlink points to nothing; a whiteout in the way becomes an opaque directory
 *   real  the path without symlinks, "" for root; may be NULL
 *
 * Returns an O_PATH descriptor, or -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG.
 */
int layer_path_walk(int root, const char *path, layer_made_fn made, void *ctx, char real[PATH_MAX],
	struct mlr_error *err);

#endif
