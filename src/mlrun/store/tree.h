/*
 * Trees: unpacked layers and whole images; images also as one squashfs file. One producer at a time
 * makes a tree under tmp/; a rename publishes it, complete.
 */
#pragma once

#include "store/store.h"

enum store_tree_kind {
	STORE_LAYER,  /* key: a layer's diff ID */
	STORE_DIR,    /* key: an image's manifest digest */
	STORE_COVER,  /* likewise: directories to mount above the layers' (rootfs/image.h) */
	STORE_SQUASH, /* likewise; the "tree" is a file, squash/<hex>.sqfs */
};

/* A tree being made; owned by the caller until published or dropped. */
struct store_tree;

/* Does the finished tree exist? 1 or 0; a tree that a crash of the machine left incomplete does
 * not. */
int store_tree_exists(struct store *st, enum store_tree_kind kind, const char *key);

/*
 * Become the producer of a tree.
 *
 * Waits while another live process makes the same tree, and removes what a killed one left. Returns
 * 0 and a tree to fill; 1 if the tree exists, perhaps since just now, with *ret untouched; or
 * -errno.
 */
int store_tree_begin(struct store *st, enum store_tree_kind kind, const char *key,
	struct store_tree **ret, struct mlr_error *err);

/* The directory to unpack into (the tree's own descriptor), mode 0755 and empty at first; of
 * STORE_SQUASH the file, open for reading and writing, mode 0644. */
int store_tree_fd(const struct store_tree *t);

/* Put a small file beside the tree (not inside), e.g. "implicit". Not for STORE_SQUASH. */
int store_tree_note(
	struct store_tree *t, const char *name, const void *buf, size_t len, struct mlr_error *err);

/* The same, written piece by piece: returns a descriptor for writing, the caller's. */
int store_tree_note_open(struct store_tree *t, const char *name, struct mlr_error *err);

/*
 * Rename into place; frees t whatever the result. store_settle() syncs it later, except on file
 * systems that several nodes may share: there it is synced first.
 */
int store_tree_publish(struct store_tree *t, struct mlr_error *err);

/* Give up: removes what was made and lets the next producer in. NULL is fine. */
void store_tree_drop(struct store_tree *t);

MLR_CLEANUP(store_tree_cleanup, struct store_tree *, store_tree_drop);

/* Open a finished tree's directory, or the file. Returns the descriptor or -ENOENT. */
int store_tree_open(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err);

/*
 * Check that a crash of the machine did not leave an existing tree incomplete. Returns 0, or
 * -EUCLEAN with a hint.
 */
int store_tree_check(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err);

/* A finished tree's path relative to the store's top, "layers/<hex>/tree", "squash/<hex>.sqfs". To
 * free(). */
char *store_tree_relpath(enum store_tree_kind kind, const char *key);

/* Refuse a store whose mark lost something. Returns 0, also without a mark, or -EUCLEAN. */
int store_check_mark(const struct store *st, struct mlr_error *err);

/* Disk usage. */

/*
 * Bytes on disk of a path below the top, recursively. Each hard link counts its share of the file,
 * so the sum over a store is right. What cannot be read counts as 0.
 */
uint64_t store_usage(struct store *st, const char *path);
