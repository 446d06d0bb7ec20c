/*
 * One layer's changes gathered in a tree of names, a function a kind of member: what layer/writer.h
 * does on disk, with the same rules. Within a layer the last member of a name wins, and an addition
 * wins over a whiteout of the same name; a member's parent may be reached through the layer's own
 * symlinks.
 */
#ifndef MLR_SQUASHFS_CHANGES_H
#define MLR_SQUASHFS_CHANGES_H

#include "base/error.h"
#include "squashfs/names.h"

struct squashfs_changes {
	struct squashfs_names *t;
	struct squashfs_names_node *top;
	int64_t mtime; /* of directories that no layer names */

	/* The parent of the member before, because the next one often has the same. */
	char *parent_path;
	struct squashfs_names_node *parent;
};

int squashfs_changes_init(
	struct squashfs_changes *c, struct squashfs_names *t, int64_t mtime, struct mlr_error *err);
void squashfs_changes_done(struct squashfs_changes *c);

/*
 * Give a path ("" is the top, cleaned) this inode; whatever else has the name makes way.
 *
 * ret may be NULL. Returns 0; -EPROTO for a member that would replace the top directory;
 * squashfs_names_walk()'s errors.
 */
int squashfs_changes_put(struct squashfs_changes *c, const char *path,
	struct squashfs_names_inode *inode, struct squashfs_names_node **ret,
	struct mlr_error *err);

/* A directory stays where one is, and gets mode, time and the xattrs. */
int squashfs_changes_dir(struct squashfs_changes *c, const char *path, unsigned mode, int64_t mtime,
	uint32_t xattr, struct mlr_error *err);

/* A second name for a file of this layer; -EPROTO where it has none such. */
int squashfs_changes_link(
	struct squashfs_changes *c, const char *path, const char *target, struct mlr_error *err);

/* Hide path, or what is below the directory path, of the layers below. */
int squashfs_changes_whiteout(struct squashfs_changes *c, const char *path, struct mlr_error *err);
int squashfs_changes_opaque(struct squashfs_changes *c, const char *path, struct mlr_error *err);

/* Go to the directory that path lies in, its last name in *name. path is not the top. */
int squashfs_changes_enter(
	struct squashfs_changes *c, const char *path, const char **name, struct mlr_error *err);

/*
 * Apply a layer's changes to what the layers below have made, as rootfs/flatten.h does with trees.
 * A directory that the layer used without naming it keeps the lower mode and time, and leads to
 * where a lower symlink of its name leads. The layer's tree is used up.
 */
int squashfs_changes_apply(
	struct squashfs_changes *c, struct squashfs_names_node *result, struct mlr_error *err);

#endif
