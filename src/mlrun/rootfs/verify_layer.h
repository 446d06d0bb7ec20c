/*
 * One layer's part of rootfs/verify.h; for that file alone.
 */
#ifndef MLR_ROOTFS_VERIFY_LAYER_H
#define MLR_ROOTFS_VERIFY_LAYER_H

#include "base/error.h"
#include "base/strv.h"

/*
 * Does a layer's tree still give the layer?
 *
 *   record_fd  its record, open for reading
 *   files      gets the names that are wrong, with what is wrong about them; not more than a few
 *
 * Returns 0; -EBADMSG when not, with err saying why; -errno when it could not be looked at.
 */
int rootfs_verify_layer(
	const char *diff_id, int record_fd, int tree_fd, struct strv *files, struct mlr_error *err);

#endif
