/*
 * A layer's directories, remembered until its end: making a file in a directory changes the
 * directory's time, and nothing can be made in a read-only one, so modes and times are set last.
 */
#ifndef MLR_LAYER_DIRS_H
#define MLR_LAYER_DIRS_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

struct layer_dirs {
	struct layer_dir *named; /* in the order of the layer */
	size_t n, room;
	void *implicit, *hiding; /* tsearch(3) trees of paths */
	void *made;              /* likewise */
	struct strv open;        /* layer_dirs_apply()'s: struct layer_result's */
	size_t bytes, bytes_max; /* of memory, about */
};

void layer_dirs_done(struct layer_dirs *d);

/* Remember a directory that a member names ("" is the top). Returns 0, -EFBIG, -ENOMEM. */
int layer_dirs_name(struct layer_dirs *d, const char *path, mode_t mode,
	const struct timespec *mtime, struct mlr_error *err);

/* Remember a directory that the layer uses without naming it; real is its path without symlinks. A
 * known one stays as it is. Returns alike. */
int layer_dirs_imply(struct layer_dirs *d, const char *real, struct mlr_error *err);
void layer_dirs_unimply(struct layer_dirs *d, const char *real);

/* Remember a directory that was made without having been named; likewise. */
int layer_dirs_make(struct layer_dirs *d, const char *real, struct mlr_error *err);
void layer_dirs_unmake(struct layer_dirs *d, const char *real);

/* Set the time of directories that were made and never named to 0. */
void layer_dirs_age_made(const struct layer_dirs *d, int root);

/* Remember a directory with a whiteout; likewise. */
int layer_dirs_hide(struct layer_dirs *d, const char *real, struct mlr_error *err);

/* Forget directories used implicitly or with whiteouts for which is_gone() returns 1. */
void layer_dirs_forget(
	struct layer_dirs *d, int (*is_gone)(void *ctx, const char *real), void *ctx);

/* Set the mode of every named directory, without the bits that let other users write, and its time;
 * the deepest first. The top stays open to its owner. Returns 0 or -errno. */
int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err);

/* Call fn with every directory that its owner may not search after layer_dirs_apply(), by the path
 * that named it. Returns 0 or what fn returned. */
int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *path, struct mlr_error *err), void *ctx,
	struct mlr_error *err);

/* The directories used implicitly and those with whiteouts, sorted; "." is the top. */
void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding);

#endif
