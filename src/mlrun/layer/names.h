/*
 * A tree of names in memory: an image's files with their types and attributes, without their data.
 * Each layer's changes have their own tree (layer/changes.h), made from its tar or its record; at
 * the end the trees are applied in order. Whoever asks what an image has at a path, and from which
 * layer, asks such a tree. Memory is freed only as a whole; a file costs about 120 bytes and its
 * name.
 */
#pragma once

#include "layer/tar.h"

#define LAYER_NO_XATTR     0xffffffffu
#define LAYER_NAMES_MEMORY ((size_t)4 << 30) /* a limit for the names of stored layers */

/* What hard links have in common. */
struct layer_inode {
	enum layer_kind kind : 4;
	unsigned mode : 12;   /* permission, set-ID and sticky bits */
	unsigned skipped : 1; /* for the tree's user, as are the members without a comment */
	unsigned layer : 15;  /* the index of the layer that it comes from */
	uint32_t uid, gid;
	uint32_t xattr; /* an index of the user's, or LAYER_NO_XATTR */
	uint32_t ordinal, number, nlink;
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t ref;
	union {
		void *data;
		char *target; /* a symlink's */
	};
};

/* A name in a directory. */
struct layer_name {
	struct layer_name *parent, *child, *last, *next, *prev, *chain;
	struct layer_inode *inode; /* NULL: a whiteout */
	unsigned named : 1;        /* a layer says mode, time and owner */
	unsigned implied : 1;      /* a directory that the layer used without naming it */
	unsigned opaque : 1;       /* a directory that hides the lower layers' contents */
	unsigned marks : 3;        /* the user's own */
	uint8_t len;
	char name[];
};

struct layer_names;

/* memory: the limit for the whole tree, in bytes. */
struct layer_names *layer_names_new(size_t memory);
void layer_names_free(struct layer_names *t);

/* Zeroed memory that lives as long as the tree, or NULL with err set: -EFBIG beyond the limit,
 * -ENOMEM. */
void *layer_names_alloc(struct layer_names *t, size_t size, struct mlr_error *err);

/* The result of a function whose call of the above failed. */
int layer_names_failed(const struct mlr_error *err);

/* Make a top directory: implied, mode 0755, time 0. A tree can have any number of them. */
struct layer_name *layer_names_top(struct layer_names *t, struct mlr_error *err);

/* Make an inode. Returns NULL with -EFBIG or -ENOMEM. */
struct layer_inode *layer_names_inode(
	struct layer_names *t, enum layer_kind kind, unsigned mode, struct mlr_error *err);

enum layer_kind layer_names_kind(const struct layer_name *n);

/* The node of this name in a directory, or NULL. */
struct layer_name *layer_names_find(
	const struct layer_names *t, const struct layer_name *dir, const char *name, size_t len);

/* The node at a path below top, or NULL. Follows no symlinks; "" and "." are the top. */
struct layer_name *layer_names_at(
	const struct layer_names *t, struct layer_name *top, const char *path);

/* The same, and make the directories that are missing. Returns 0, -EFBIG, -ENOMEM, -ENAMETOOLONG.
 */
int layer_names_get(struct layer_names *t, struct layer_name *top, const char *path,
	struct layer_name **ret, struct mlr_error *err);

/* The path of a node without a leading '/', "." for a top; to free(). */
char *layer_names_path(const struct layer_name *n);

/* Add a name, which must be new, with inode (NULL: a whiteout). */
struct layer_name *layer_names_add(struct layer_names *t, struct layer_name *dir, const char *name,
	size_t len, struct layer_inode *inode, struct mlr_error *err);

/* Remove a name from its directory, with everything below it. */
void layer_names_remove(struct layer_names *t, struct layer_name *n);

/* Move a name, with everything below it, to another directory that lacks the name. */
void layer_names_move(struct layer_names *t, struct layer_name *n, struct layer_name *to);

/*
 * Walk from top to a directory, following symlinks as if top were "/"; the counterpart of
 * layer_path_walk(). Makes what is missing: implied, mode 0755, time 0, also at the target of a
 * dangling symlink. A whiteout on the path becomes an opaque directory that is not implied.
 *
 *   make  0: fail with -ENOENT instead
 *
 * Returns 0, -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOMEM.
 */
int layer_names_walk(struct layer_names *t, struct layer_name *top, const char *path, int make,
	struct layer_name **ret, struct mlr_error *err);
