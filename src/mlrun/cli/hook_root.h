/*
 * Writes into the root of a container that another runtime is making, for `mlrun gpu hook`: with
 * the rights of root or of its user namespace, in an untrusted tree. Paths are resolved with the
 * container's root as "/". Other mounts, such as volumes, are not changed.
 */
#ifndef MLR_CLI_HOOK_ROOT_H
#define MLR_CLI_HOOK_ROOT_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

/*
 * Open the root of the container whose state is on standard input (OCI runtime-spec, runtime.md,
 * "State").
 *
 * Returns an O_PATH descriptor; -EINVAL for an invalid state, or if the root is this machine's;
 * -EPROTO if the bundle's config.json names no root.
 */
int hook_root_open(struct mlr_error *err);

/*
 * Open the directory in which to create something; missing directories are created.
 *
 *   path  absolute
 *   name  gets the last component, which points into path
 *
 * Returns an O_PATH descriptor; -EXDEV if the path leads to a volume, where nothing is created. The
 * tmpfs on /dev does not count as one.
 */
int hook_root_place(int root, const char *path, const char **name, struct mlr_error *err);

/* Write a file atomically, replacing another. Returns like hook_root_place(). */
int hook_root_put(
	int root, const char *path, const char *bytes, size_t size, struct mlr_error *err);

/* Is path a mount point? Links are followed. */
int hook_root_is_mounted(int root, const char *path);

/* For struct gpu_image (gpu/gpu.h); ctx points to the root's descriptor, an int. -ENOENT for other
 * files than regular ones. */
int hook_root_open_file(void *ctx, const char *path);
int hook_root_list(void *ctx, const char *path, struct strv *ret);

#endif
