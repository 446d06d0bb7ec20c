/*
 * One file from one tree into another.
 */
#ifndef MLR_ROOTFS_PLACE_H
#define MLR_ROOTFS_PLACE_H

#include "base/error.h"

/*
 * Give a file that is no directory a name in another directory, replacing what is there: as a hard
 * link, or as a copy (data with its holes, mode, time, user.* xattrs) where the file system allows
 * no link.
 */
int rootfs_place(int from_dir, int to_dir, const char *name, struct mlr_error *err);

/* Copy user.* xattrs but for overlayfs's own. What cannot be kept is let go. */
void rootfs_place_xattrs(int from, int to);

#endif
