/*
 * Gathers one layer's changes in a tree of names, with a function for each kind of member: what
 * layer/writer.h does on disk, by the same rules. Within a layer the last member of a name wins,
 * and an addition wins over a whiteout of the same name. A member's parent may be reached through
 * the layer's own symlinks.
 */
#ifndef MLR_SQUASHFS_CHANGES_H
#define MLR_SQUASHFS_CHANGES_H

#include "base/error.h"
#include "squashfs/names.h"

struct squashfs_changes {
	struct squashfs_names *t;
	struct squashfs_names_node *top;
	int64_t mtime; /* for directories that no layer names */

	/* The previous member's parent, because the next member often has the same. */
	char *parent_path;
	struct squashfs_names_node *parent;
};

int squashfs_changes_init(
	struct squashfs_changes *c, struct squashfs_names *t, int64_t mtime, struct mlr_error *err);
void squashfs_changes_done(struct squashfs_changes *c);

/*
 * Give a path ("" is the top, cleaned) this inode, replacing whatever has the name.
 *
 * ret may be NULL. Returns 0; -EPROTO for a member that would replace the top directory;
 * squashfs_names_walk()'s errors.
 */
int squashfs_changes_put(struct squashfs_changes *c, const char *path,
	struct squashfs_names_inode *inode, struct squashfs_names_node **ret,
	struct mlr_error *err);

/* Make a directory, or set an existing one's mode, time and xattrs. */
int squashfs_changes_dir(struct squashfs_changes *c, const char *path, unsigned mode, int64_t mtime,
	uint32_t xattr, struct mlr_error *err);

/* Add a hard link to a file of this layer; -EPROTO if the layer has no such file. */
int squashfs_changes_link(
	struct squashfs_changes *c, const char *path, const char *target, struct mlr_error *err);

/* Hide path, or everything below the directory path, in the layers below. */
int squashfs_changes_whiteout(struct squashfs_changes *c, const char *path, struct mlr_error *err);
int squashfs_changes_opaque(struct squashfs_changes *c, const char *path, struct mlr_error *err);

/*
 * Apply a layer's changes to the result of the layers below, as rootfs/flatten.h does with trees. A
 * directory that the layer used without naming it keeps the lower mode and time; if a lower symlink
 * has its name, its files go to the link's target. Uses up the layer's tree.
 */
int squashfs_changes_apply(
	struct squashfs_changes *c, struct squashfs_names_node *result, struct mlr_error *err);

#endif
