/*
 * Trash: paths are renamed into tmp/ before they are deleted, so that nobody sees half of one. For
 * the files of this room.
 */
#pragma once

#include "store/process.h"

/* Rename a path below the top to "tmp/trash.<n>.<process>", which is returned in to. Returns 0, or
 * -ENOENT if nothing is there. */
int store_trash(
	struct store *st, const char *path, char to[STORE_WORK_PATH], struct mlr_error *err);

/* The same, and delete it. Returns 0, too, if nothing is there. */
int store_discard(struct store *st, const char *path, struct mlr_error *err);

/* Directories for work that ends with this process, below the store's tmp/. */

/*
 * Make an empty directory, mode 0700, "tmp/<what>-<hex>.<hold>". If this process is killed, a sweep
 * removes it.
 *
 *   ret  its absolute path, to free()
 */
int store_scratch_make(struct store *st, const char *what, char **ret, struct mlr_error *err);

/* Remove it, with all that is in it. NULL is fine. */
void store_scratch_remove(struct store *st, const char *path);
