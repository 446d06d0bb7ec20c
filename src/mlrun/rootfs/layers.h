/* The layer trees of one image, opened, with facts from their tars that a tree does not show. */
#pragma once

#include "layer/names.h"
#include "layer/record.h"
#include "store/tree.h"

struct rootfs_layer {
	int fd;               /* its tree */
	struct strv implicit; /* struct layer_result's, sorted */
	struct strv hiding;
};

struct rootfs_layers {
	struct rootfs_layer *v; /* lowest first */
	size_t n;
};

/* Open all layers. Returns 0, or -ENOENT naming the layer that the store lacks. */
int rootfs_layers_open(struct store *st, const struct strv *diff_ids, struct rootfs_layers *ret,
	struct mlr_error *err);
void rootfs_layers_done(struct rootfs_layers *l);

/* Fills a tree whose top is root by the layers; names is rootfs_tree_make()'s. */
typedef int rootfs_tree_fill(
	const struct rootfs_layers *l, const struct strv *names, int root, struct mlr_error *err);

/* Make an image's tree of a kind in the store, with its listing. Returns 0 at once if it exists.
 * (flatten.c) */
int rootfs_tree_make(struct store *st, enum store_tree_kind kind, const char *manifest,
	const struct strv *diff_ids, rootfs_tree_fill *fill, const struct strv *names,
	struct mlr_error *err);

/* Are the notes beside a layer's tree unchanged? Returns 0, also for a layer of an older mlrun,
 * which has no digest of them; -EBADMSG. */
int rootfs_layer_notes_check(struct store *st, const char *diff_id, struct mlr_error *err);

/* Open a stored layer's record (layer/record.h). Returns the descriptor; -ENOENT for a layer of an
 * older mlrun, which has none; -errno. */
int rootfs_layer_record(struct store *st, const char *diff_id, struct mlr_error *err);

/* layer_rebuild() of a stored layer, and -EBADMSG unless the digest is diff_id. */
int rootfs_layer_rebuild(const char *diff_id, int record_fd, int tree_fd, layer_write_fn write,
	void *ctx, struct mlr_error *err);

/* An image's names, with the owners and modes of its tars. */
struct rootfs_names {
	struct layer_names *t;
	struct layer_name *top;
};

/* Read the names from the layers' records, lowest first; layer i of a name is diff_ids' i-th. Skips
 * layers of an older mlrun, which have no record. */
int rootfs_names_read(struct store *st, const struct strv *diff_ids, struct rootfs_names *ret,
	struct mlr_error *err);
void rootfs_names_done(struct rootfs_names *n);

/* Did the layer use this directory without naming it? path is as in its tree, "." for the top. */
int rootfs_layer_implies(const struct rootfs_layer *l, const char *path);
