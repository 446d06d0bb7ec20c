/* Finds and makes places to mount at, inside the container's root. */
#pragma once

#include "base/base.h"

/*
 * A directory's times, restored after something is made in it, so that the container shows the
 * image's times.
 *
 *   auto_call(target_times_restore) struct target_times times = TARGET_TIMES_INIT;
 *   target_times_save(&times, dir);      dir must stay open until then; O_PATH suffices
 */
struct target_times {
	int dir;
	struct timespec at[2]; /* atime, mtime: utimensat(2)'s order */
};

#define TARGET_TIMES_INIT \
	{                 \
		.dir = -1 \
	}

void target_times_save(struct target_times *t, int dir);
void target_times_restore(const struct target_times *t);

/*
 * Open a mount point; makes it and its parents if they are missing. Each step is resolved with root
 * as "/", so links of the image cannot lead outside.
 *
 *   is_dir  open a directory (else a regular file)
 *   linked  set to 1 unless the place existed and its path has no links; otherwise unchanged
 *
 * Returns an O_PATH descriptor; -ENOTDIR or -EISDIR if the image has something of the other kind
 * there.
 */
int target_open(int root, const char *path, int is_dir, int *linked, struct mlr_error *err);

/* mkdir -p inside root, following links inside it. Returns an O_PATH descriptor of the
 * directory. */
int target_mkdir(int root, const char *path, struct mlr_error *err);

/* Split an absolute path into its parent, made and opened as above, and its last component, which
 * points into path. -EINVAL if that is "." or "..". */
int target_parent(int root, const char *path, const char **name, struct mlr_error *err);

/* Write a regular file of mode 0644, replacing whatever the image has there but a directory (a link
 * is replaced, not followed). Keeps the parent's times. */
int target_replace(int root, const char *path, const void *buf, size_t len, struct mlr_error *err);
