/*
 * A listing: one digest of all names in a tree with their types, modes (without write permission
 * for others), times, sizes and link targets. mlrun keeps one as "listing" beside each tree that it
 * makes from layers, since no tar describes a flattened tree.
 */
#pragma once

#include "store/tree.h"

/* Write the listing for a finished tree that is not published yet. Returns 0 or -errno. */
int rootfs_listing_note(const struct store *st, struct store_tree *t, struct mlr_error *err);

/*
 * Does a published tree match its listing?
 *
 * Returns 0, also if it has no listing or this user cannot read a directory; -EBADMSG if it
 * differs.
 */
int rootfs_listing_check(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err);
