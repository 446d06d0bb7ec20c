/* Places a file of one tree in another. */
#pragma once

#include "base/base.h"

/*
 * Give a non-directory a name in another directory, replacing what is there: as a hard link or, if
 * the file system refuses that, as a copy (data with its holes, mode, time, user.* xattrs).
 */
int rootfs_place(int from_dir, int to_dir, const char *name, struct mlr_error *err);

/* Copy user.* xattrs but for overlayfs's own. Skips those that the file system refuses. */
void rootfs_place_xattrs(int from, int to);
