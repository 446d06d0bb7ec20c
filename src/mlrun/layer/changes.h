/*
 * Gathers one layer's changes in a tree of names: what layer/writer.h does on disk, by the same
 * rules. Within a layer the last member of a name wins, and an addition wins over a whiteout of the
 * same name. A member's parent may be reached through the layer's own symlinks.
 */
#pragma once

#include "layer/names.h"

struct layer_changes {
	struct layer_names *t;
	struct layer_name *top;
	unsigned layer; /* of all its inodes */

	/* The previous member's parent, because the next member often has the same. */
	char *parent_path;
	struct layer_name *parent;
};

int layer_changes_init(
	struct layer_changes *c, struct layer_names *t, size_t layer, struct mlr_error *err);
void layer_changes_done(struct layer_changes *c);

/*
 * Add a member, replacing whatever has the name; a directory keeps what is in it. A mark hides the
 * name in the layers below.
 *
 *   xattr  of its inode
 *   ret    gets the name; NULL for marks. May be NULL
 *
 * Returns 0; -EPROTO for a member that would replace the top directory, or for a hard link to a
 * file that the layer does not have; layer_names_walk()'s errors.
 */
int layer_changes_add(struct layer_changes *c, const struct layer_member *m, uint32_t xattr,
	struct layer_name **ret, struct mlr_error *err);

/*
 * Apply a layer's changes to the result of the layers below, as rootfs/flatten.h does with trees. A
 * directory that the layer used without naming it keeps the lower mode and time; if a lower symlink
 * has its name, its files go to the link's target. Uses up the layer's tree.
 */
int layer_changes_apply(struct layer_changes *c, struct layer_name *result, struct mlr_error *err);
