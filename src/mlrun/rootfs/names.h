/*
 * A tree of names in memory: what an image's files are called and what they are, without their
 * data. The changes of each layer are gathered in a tree of their own (rootfs/changes.h) and
 * applied in order at the end (rootfs/apply.h). Nothing is freed before the whole; a file costs
 * about 160 bytes and its name.
 */
#ifndef MLR_ROOTFS_NAMES_H
#define MLR_ROOTFS_NAMES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NAMES_NO_XATTR 0xffffffffu

enum names_kind { NAMES_DIR, NAMES_FILE, NAMES_SYMLINK, NAMES_FIFO, NAMES_WHITEOUT };

/* Where a file's data lie in the image (the squashfs format, "file inodes"). */
struct names_data {
	uint64_t size, start, sparse; /* bytes; start: of the first block that is no hole */
	uint32_t fragment, offset;    /* in the fragment table, and in that block; or 0xffffffff */
	uint32_t n_blocks, done;      /* blocks of the file, those whose size is known by now */
	uint32_t *blocks;             /* their sizes as the format has them, 0 for a hole */
	int raw;                      /* whole blocks are stored as they are */
};

/* What hard links share. */
struct names_inode {
	enum names_kind kind : 8;
	unsigned mode : 16;   /* permission bits and the sticky bit */
	unsigned skipped : 1; /* a file whose data were passed over: what layer, what file of it */
	uint32_t layer, ordinal;
	int64_t mtime;
	uint32_t xattr; /* a set of the xattr writer's, or NAMES_NO_XATTR */
	uint32_t number, nlink;
	uint64_t ref; /* where it was written */
	union {
		struct names_data *data;
		char *target;
	};
};

struct names_node {
	struct names_node *parent, *child, *last, *next, *prev, *chain;
	struct names_inode *inode; /* NULL: a whiteout */
	unsigned implied : 1;      /* a directory that the layer used without naming it */
	unsigned opaque : 1;       /* a directory that hides what lies below it */
	uint8_t len;
	char name[];
};

struct names;

/* memory: the ceiling for all of it, in bytes. */
struct names *names_new(size_t memory);
void names_free(struct names *t);

/* Zeroed memory that lives as long as the tree, or NULL with err set: -EFBIG past the ceiling,
 * -ENOMEM. */
void *names_alloc(struct names *t, size_t size, struct mlr_error *err);

/* A top directory, implied, mode 0755, time mtime; as many as wanted. */
struct names_node *names_top(struct names *t, int64_t mtime, struct mlr_error *err);

/* An inode: -EFBIG or -ENOMEM make it NULL. */
struct names_inode *names_inode(
	struct names *t, enum names_kind kind, unsigned mode, int64_t mtime, struct mlr_error *err);

enum names_kind names_kind(const struct names_node *n);

/* What has this name in a directory, or NULL. */
struct names_node *names_find(
	const struct names *t, const struct names_node *dir, const char *name, size_t len);

/* A new name, which must not be there yet, with inode (NULL: a whiteout). */
struct names_node *names_add(struct names *t, struct names_node *dir, const char *name, size_t len,
	struct names_inode *inode, struct mlr_error *err);

/* Take a name out of its directory, with all below it. */
void names_remove(struct names *t, struct names_node *n);

/* Put a name, with all below it, into another directory, which has none such. */
void names_move(struct names *t, struct names_node *n, struct names_node *to);

/*
 * Walk from top to a directory, following symlinks as if top were "/"; the counterpart of
 * layer_path_walk(). What is missing is made: implied, mode 0755, time mtime, also where a symlink
 * points to nothing; a whiteout in the way becomes an opaque directory that is not implied.
 *
 *   make  0: what is missing is -ENOENT
 *
 * Returns 0, -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOMEM.
 */
int names_walk(struct names *t, struct names_node *top, const char *path, int make, int64_t mtime,
	struct names_node **ret, struct mlr_error *err);

#endif
