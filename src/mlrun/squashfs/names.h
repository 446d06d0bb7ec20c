/*
 * A tree of names in memory: what an image's files are called and what they are, without their
 * data. The changes of each layer are gathered in a tree of their own (squashfs/changes.h) and
 * applied in order at the end (rootfs/apply.h). Nothing is freed before the whole; a file costs
 * about 160 bytes and its name.
 */
#ifndef MLR_SQUASHFS_NAMES_H
#define MLR_SQUASHFS_NAMES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NAMES_NO_XATTR 0xffffffffu

enum squashfs_names_kind { NAMES_DIR, NAMES_FILE, NAMES_SYMLINK, NAMES_FIFO, NAMES_WHITEOUT };

/* Where a file's data lie in the image (the squashfs format, "file inodes"). */
struct squashfs_names_data {
	uint64_t size, start, sparse; /* bytes; start: of the first block that is no hole */
	uint32_t fragment, offset;    /* in the fragment table, and in that block; or 0xffffffff */
	uint32_t n_blocks, done;      /* blocks of the file, those whose size is known by now */
	uint32_t *blocks;             /* their sizes as the format has them, 0 for a hole */
	int raw;                      /* whole blocks are stored as they are */
};

/* What hard links share. */
struct squashfs_names_inode {
	enum squashfs_names_kind kind : 8;
	unsigned mode : 16;   /* permission bits and the sticky bit */
	unsigned skipped : 1; /* a file whose data were passed over: what layer, what file of it */
	uint32_t layer, ordinal;
	int64_t mtime;
	uint32_t xattr; /* a set of the xattr writer's, or NAMES_NO_XATTR */
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
	unsigned opaque : 1;                /* a directory that hides what lies below it */
	uint8_t len;
	char name[];
};

struct squashfs_names;

/* memory: the ceiling for all of it, in bytes. */
struct squashfs_names *squashfs_names_new(size_t memory);
void squashfs_names_free(struct squashfs_names *t);

/* Zeroed memory that lives as long as the tree, or NULL with err set: -EFBIG past the ceiling,
 * -ENOMEM. */
void *squashfs_names_alloc(struct squashfs_names *t, size_t size, struct mlr_error *err);

/* A top directory, implied, mode 0755, time mtime; as many as wanted. */
struct squashfs_names_node *squashfs_names_top(
	struct squashfs_names *t, int64_t mtime, struct mlr_error *err);

/* An inode: -EFBIG or -ENOMEM make it NULL. */
struct squashfs_names_inode *squashfs_names_inode(struct squashfs_names *t,
	enum squashfs_names_kind kind, unsigned mode, int64_t mtime, struct mlr_error *err);

enum squashfs_names_kind squashfs_names_kind(const struct squashfs_names_node *n);

/* What has this name in a directory, or NULL. */
struct squashfs_names_node *squashfs_names_find(const struct squashfs_names *t,
	const struct squashfs_names_node *dir, const char *name, size_t len);

/* A new name, which must not be there yet, with inode (NULL: a whiteout). */
struct squashfs_names_node *squashfs_names_add(struct squashfs_names *t,
	struct squashfs_names_node *dir, const char *name, size_t len,
	struct squashfs_names_inode *inode, struct mlr_error *err);

/* Take a name out of its directory, with all below it. */
void squashfs_names_remove(struct squashfs_names *t, struct squashfs_names_node *n);

/* Put a name, with all below it, into another directory, which has none such. */
void squashfs_names_move(
	struct squashfs_names *t, struct squashfs_names_node *n, struct squashfs_names_node *to);

/*
 * Walk from top to a directory, following symlinks as if top were "/"; the counterpart of
 * layer_path_walk(). What is missing is made: implied, mode 0755, time mtime, also where a symlink
 * points to nothing; a whiteout in the way becomes an opaque directory that is not implied.
 *
 *   make  0: what is missing is -ENOENT
 *
 * Returns 0, -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOMEM.
 */
int squashfs_names_walk(struct squashfs_names *t, struct squashfs_names_node *top, const char *path,
	int make, int64_t mtime, struct squashfs_names_node **ret, struct mlr_error *err);

#endif
