/* Unpacks an image's file, by unsquashfs(1). */
#pragma once

#include "base/error.h"

/*
 * Unpack the image in a SIF or squashfs file.
 *
 *   dir     must not exist yet; what is in it after a failure is not whole
 *   cancel  as in spawn_wait_unless()
 *
 * Returns 0; -ECANCELED; -ENOENT where unsquashfs is not installed; errors of sif_find(); -EIO.
 */
int rootfs_unpack(const char *file, const char *dir, const int *cancel, struct mlr_error *err);
