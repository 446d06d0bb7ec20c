/*
 * What a layer says of its directories, kept until the end: a file made in a directory changes the
 * directory's time, and a read-only directory takes no files, so modes and times come last.
 */
#ifndef MLR_LAYER_DIRS_H
#define MLR_LAYER_DIRS_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

struct layer_dirs {
	struct layer_dir *named; /* in the order of coming */
	size_t n, room;
	void *implicit, *hiding; /* tsearch(3) trees of paths */
	void *made;              /* alike */
	struct strv open;        /* layer_dirs_apply()'s: struct layer_result's */
	size_t bytes, bytes_max; /* of memory, roughly */
};

void layer_dirs_done(struct layer_dirs *d);

/* A member named this directory ("" is the top). Returns 0, -EFBIG, -ENOMEM. */
int layer_dirs_name(struct layer_dirs *d, const char *path, mode_t mode,
	const struct timespec *mtime, struct mlr_error *err);

/* It was made without having been named, or is known after all; by its path without symlinks. */
int layer_dirs_imply(struct layer_dirs *d, const char *real, struct mlr_error *err);
void layer_dirs_unimply(struct layer_dirs *d, const char *real);

/* It was made without having been named, or is named after all; alike. */
int layer_dirs_make(struct layer_dirs *d, const char *real, struct mlr_error *err);
void layer_dirs_unmake(struct layer_dirs *d, const char *real);

/* Give those that were made and never named the time 0, in the place of that of the unpacking. */
void layer_dirs_age_made(const struct layer_dirs *d, int root);

/* It holds a whiteout. */
int layer_dirs_hide(struct layer_dirs *d, const char *real, struct mlr_error *err);

/* Forget of those used and those with whiteouts all that is_gone() says 1 of. */
void layer_dirs_forget(
	struct layer_dirs *d, int (*is_gone)(void *ctx, const char *real), void *ctx);

/* Give every named directory its mode, less what lets others write, and its time, the deepest
 * first. The top stays open to its owner. Returns 0 or -errno. */
int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err);

/* Tell, by the path that it was named by, every directory that layer_dirs_apply() will make one
 * that its owner may not search. Returns 0 or what fn returned. */
int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *path, struct mlr_error *err), void *ctx,
	struct mlr_error *err);

/* The sets, sorted, "." for the top. */
void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding);

#endif
