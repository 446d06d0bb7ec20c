/*
 * A listing: one digest of all names of a tree with their types, modes (less what lets others
 * write), times, sizes and link targets. Trees that mlrun makes of layers have it beside them,
 * "listing", as no tar tells what shall be in them.
 */
#ifndef MLR_ROOTFS_LISTING_H
#define MLR_ROOTFS_LISTING_H

#include "base/error.h"
#include "store/tree.h"

/* Write it for a tree that is finished, but not published. Returns 0 or -errno. */
int rootfs_listing_note(const struct store *st, struct store_tree *t, struct mlr_error *err);

/*
 * Is a published tree as it was listed?
 *
 * Returns 0, also where there is no telling: it has no listing, or a directory cannot be read by
 * this user; -EBADMSG when not.
 */
int rootfs_listing_check(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err);

#endif
