/* Places inside the container's root at which something shall be put. */
#ifndef MLR_RUNTIME_TARGET_H
#define MLR_RUNTIME_TARGET_H

#include "base/error.h"

#include <stddef.h>

#include <time.h>

/*
 * The times of a directory in which something is about to be made, put back when that is done: the
 * container shows the image's times.
 *
 *   auto_call(target_times_restore) struct target_times times = TARGET_TIMES_INIT;
 *   target_times_save(&times, dir);      dir must stay open until then; an O_PATH one will do
 */
struct target_times {
	int dir;
	struct timespec at[2]; /* of access, of modification: utimensat(2)'s order */
};

#define TARGET_TIMES_INIT \
	{                 \
		.dir = -1 \
	}

void target_times_save(struct target_times *t, int dir);
void target_times_restore(const struct target_times *t);

/*
 * Open the place at which to mount, making it and its parents where they are missing. Every step is
 * resolved with root as "/", so no link of the image leads outside.
 *
 *   is_dir  a directory is wanted (else a regular file)
 *   linked  set to 1 unless it was there and its path leads through no link; left alone then
 *
 * Returns an O_PATH descriptor; -ENOTDIR or -EISDIR when the image has there a thing of the other
 * kind.
 */
int target_open(int root, const char *path, int is_dir, int *linked, struct mlr_error *err);

/* mkdir -p inside root, links followed inside it. Returns an O_PATH descriptor of the directory. */
int target_mkdir(int root, const char *path, struct mlr_error *err);

/* Split an absolute path into its parent, made and opened as above, and its last component,
 * which points into path. -EINVAL when that is "." or "..". */
int target_parent(int root, const char *path, const char **name, struct mlr_error *err);

/* Put a regular file of these bytes, mode 0644, in the place of whatever the image has there but a
 * directory (a link is replaced, not followed). The parent's times are kept. */
int target_replace(int root, const char *path, const void *buf, size_t len, struct mlr_error *err);

#endif
