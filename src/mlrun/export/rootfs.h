/*
 * A stored image's root directory as one tar. For this room's other files.
 */
#ifndef MLR_EXPORT_ROOTFS_H
#define MLR_EXPORT_ROOTFS_H

#include "export/layers.h"

int export_rootfs_write(struct work *w, struct export_result *ret, struct mlr_error *err);

#endif
