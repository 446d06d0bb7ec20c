/*
 * The root of a container that another runtime is making, for `mlrun gpu hook`: with root's rights,
 * or those of its user namespace, in a tree that is a stranger's. Each path is resolved with the
 * container's root as "/", and what lies in another mount, as a volume, is left alone.
 */
#ifndef MLR_CLI_HOOK_ROOT_H
#define MLR_CLI_HOOK_ROOT_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

/*
 * Open the root of the container whose state stands on standard input (OCI runtime-spec,
 * runtime.md, "State").
 *
 * Returns an O_PATH descriptor; -EINVAL for what is no state, and where the root is this machine's
 * own; -EPROTO when config.json of the bundle names none.
 */
int hook_root_open(struct mlr_error *err);

/*
 * Open the directory in which to make something, making it where it is missing.
 *
 *   path  absolute
 *   name  the last component, which points into path
 *
 * Returns an O_PATH descriptor; -EXDEV when the path leads to a volume, in which nothing is made
 * then. The tmpfs that is /dev is none.
 */
int hook_root_place(int root, const char *path, const char **name, struct mlr_error *err);

/* Put a file of these bytes in the place of another, whole or not at all. Returns as the above. */
int hook_root_put(
	int root, const char *path, const char *bytes, size_t size, struct mlr_error *err);

/* Is it a mount of its own, in a directory of another mount? Links are followed. */
int hook_root_is_mounted(int root, const char *path);

/* For struct gpu_image (gpu/gpu.h), ctx being the root's descriptor, int *. What is no regular file
 * is -ENOENT. */
int hook_root_open_file(void *ctx, const char *path);
int hook_root_list(void *ctx, const char *path, struct strv *ret);

#endif
