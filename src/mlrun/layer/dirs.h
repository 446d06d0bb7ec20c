/*
 * A layer's directories, remembered until its end: making a file in a directory changes the
 * directory's time, and nothing can be made in a read-only one, so modes and times are set last.
 */
#ifndef MLR_LAYER_DIRS_H
#define MLR_LAYER_DIRS_H

#include "layer/names.h"

#define LAYER_DIRS_HIDES 1 /* a mark of a name: the directory has whiteouts */

struct layer_dirs {
	struct layer_names *t; /* of directories only */
	struct layer_name *top;
	size_t memory;
	struct strv open; /* layer_dirs_apply()'s: struct layer_result's */
};

/* memory: the limit, in bytes. */
void layer_dirs_init(struct layer_dirs *d, size_t memory);
void layer_dirs_done(struct layer_dirs *d);

/* Find a directory by its path without symlinks ("" is the top), or remember a new one. An implied
 * one is used by the layer without being named. Returns 0, -EFBIG, -ENOMEM. */
int layer_dirs_get(
	struct layer_dirs *d, const char *real, struct layer_name **ret, struct mlr_error *err);

/* Forget the directory that was at this path, if any, and those below. */
void layer_dirs_drop(struct layer_dirs *d, const char *real);

/* Finish the tree: remove whiteouts from opaque directories, set the mode of every named directory,
 * without the bits that let other users write, and its time, and the time 0 of others; the deepest
 * first. The top stays open to its owner. Returns 0 or -errno. */
int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err);

/* Call fn with every directory that its owner may not search after layer_dirs_apply(), unless it is
 * below another such. Returns 0 or what fn returned. */
int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *real, struct mlr_error *err), void *ctx,
	struct mlr_error *err);

/* The directories used implicitly and those with whiteouts, sorted; "." is the top. */
void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding);

#endif
