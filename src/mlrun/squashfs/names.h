/*
 * A tree of names in memory: an image's files with their types and attributes, without their data.
 * Each layer's changes have their own tree (squashfs/changes.h); at the end the trees are applied
 * in order. Memory is freed only as a whole; a file costs about 160 bytes and its name.
 */
#ifndef MLR_SQUASHFS_NAMES_H
#define MLR_SQUASHFS_NAMES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NAMES_NO_XATTR 0xffffffffu

enum squashfs_names_kind { NAMES_DIR, NAMES_FILE, NAMES_SYMLINK, NAMES_FIFO, NAMES_WHITEOUT };

/* Where a file's data is in the image (the squashfs format, "file inodes"). */
struct squashfs_names_data {
	uint64_t size, start, sparse; /* bytes; start: of the first block that is not a hole */
	uint32_t fragment, offset; /* the index in the fragment table and the offset in that block;
				      or 0xffffffff */
	uint32_t n_blocks, done;   /* blocks of the file, and how many of their sizes are known */
	uint32_t *blocks;          /* their sizes as in the format, 0 for a hole */
	int raw;                   /* store whole blocks uncompressed */
};

/* What hard links have in common. */
struct squashfs_names_inode {
	enum squashfs_names_kind kind : 8;
	unsigned mode : 16;   /* permission bits and the sticky bit */
	unsigned skipped : 1; /* a file whose data was skipped; gives its layer and index */
	uint32_t layer, ordinal;
	int64_t mtime;
	uint32_t xattr; /* an index of the xattr writer's, or NAMES_NO_XATTR */
	uint32_t number, nlink;
	uint64_t ref; /* where it was written */
	union {
		struct squashfs_names_data *data;
		char *target;
	};
};

struct squashfs_names_node {
	struct squashfs_names_node *parent, *child, *last, *next, *prev, *chain;
	struct squashfs_names_inode *inode; /* NULL: a whiteout */
	unsigned implied : 1;               /* a directory that the layer used without naming it */
	unsigned opaque : 1;                /* a directory that hides the lower layers' contents */
	uint8_t len;
	char name[];
};

struct squashfs_names;

/* memory: the limit for the whole tree, in bytes. */
struct squashfs_names *squashfs_names_new(size_t memory);
void squashfs_names_free(struct squashfs_names *t);

/* Zeroed memory that lives as long as the tree, or NULL with err set: -EFBIG beyond the limit,
 * -ENOMEM. */
void *squashfs_names_alloc(struct squashfs_names *t, size_t size, struct mlr_error *err);

/* Make a top directory: implied, mode 0755, time mtime. A tree can have any number of them. */
struct squashfs_names_node *squashfs_names_top(
	struct squashfs_names *t, int64_t mtime, struct mlr_error *err);

/* Make an inode. Returns NULL with -EFBIG or -ENOMEM. */
struct squashfs_names_inode *squashfs_names_inode(struct squashfs_names *t,
	enum squashfs_names_kind kind, unsigned mode, int64_t mtime, struct mlr_error *err);

enum squashfs_names_kind squashfs_names_kind(const struct squashfs_names_node *n);

/* The node of this name in a directory, or NULL. */
struct squashfs_names_node *squashfs_names_find(const struct squashfs_names *t,
	const struct squashfs_names_node *dir, const char *name, size_t len);

/* Add a name, which must be new, with inode (NULL: a whiteout). */
struct squashfs_names_node *squashfs_names_add(struct squashfs_names *t,
	struct squashfs_names_node *dir, const char *name, size_t len,
	struct squashfs_names_inode *inode, struct mlr_error *err);

/* Remove a name from its directory, with everything below it. */
void squashfs_names_remove(struct squashfs_names *t, struct squashfs_names_node *n);

/* Move a name, with everything below it, to another directory that lacks the name. */
void squashfs_names_move(
	struct squashfs_names *t, struct squashfs_names_node *n, struct squashfs_names_node *to);

/*
 * Walk from top to a directory, following symlinks as if top were "/"; the counterpart of
 * layer_path_walk(). Makes what is missing: implied, mode 0755, time mtime, also at the target of a
 * dangling symlink. A whiteout on the path becomes an opaque directory that is not implied.
 *
 *   make  0: fail with -ENOENT instead
 *
 * Returns 0, -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOMEM.
 */
int squashfs_names_walk(struct squashfs_names *t, struct squashfs_names_node *top, const char *path,
	int make, int64_t mtime, struct squashfs_names_node **ret, struct mlr_error *err);

#endif
