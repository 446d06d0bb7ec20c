/*
 * The part of rootfs/verify.h that looks at trees of whole images; for that file alone.
 */
#ifndef MLR_ROOTFS_VERIFY_TREE_H
#define MLR_ROOTFS_VERIFY_TREE_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

/*
 * Is every file of dir/<manifest>/tree one of the layers'? By inode, as flattening makes hard
 * links, else by the bytes of the topmost layer that has the name. Are its names as they were
 * listed when it was made (rootfs/listing.h)?
 *
 *   files  gets the names that are wrong, not more than a few
 *
 * Returns 0, or -EBADMSG; -errno when it could not be looked at.
 */
int rootfs_verify_tree(struct store *st, const char *manifest, const struct strv *diff_ids,
	struct strv *files, struct mlr_error *err);

/* Are there only directories in cover/<manifest>/tree, and as they were listed? Returns alike. */
int rootfs_verify_cover(struct store *st, const char *manifest, struct mlr_error *err);

#endif
