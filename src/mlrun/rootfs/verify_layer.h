/* One layer's part of rootfs/verify.h; only for verify.c. */
#ifndef MLR_ROOTFS_VERIFY_LAYER_H
#define MLR_ROOTFS_VERIFY_LAYER_H

#include "base/error.h"
#include "base/strv.h"

/*
 * Does a layer's tree still match the layer?
 *
 *   record_fd  its record, open for reading
 *   files      gets the first few wrong names and what is wrong with each
 *
 * Returns 0; -EBADMSG if it differs, with the reason in err; -errno if it could not be examined.
 */
int rootfs_verify_layer(
	const char *diff_id, int record_fd, int tree_fd, struct strv *files, struct mlr_error *err);

#endif
