/*
 * Trash: paths are renamed into tmp/ before they are deleted, so that nobody sees half of one. For
 * the files of this room.
 */
#ifndef MLR_STORE_TRASH_H
#define MLR_STORE_TRASH_H

#include "base/error.h"
#include "store/process.h"
#include "store/store.h"

/* Rename a path below the top to "tmp/trash.<n>.<process>", which is returned in to. Returns 0, or
 * -ENOENT if nothing is there. */
int store_trash(
	struct store *st, const char *path, char to[STORE_WORK_PATH], struct mlr_error *err);

/* The same, and delete it. Returns 0, too, if nothing is there. */
int store_discard(struct store *st, const char *path, struct mlr_error *err);

#endif
