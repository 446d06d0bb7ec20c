/*
 * Trash: what goes is renamed into tmp/ first, so that nobody sees half of it, and deleted then.
 * For this room's other files.
 */
#ifndef MLR_STORE_TRASH_H
#define MLR_STORE_TRASH_H

#include "base/error.h"
#include "store/process.h"
#include "store/store.h"

/* Rename a path below the top away. Returns 0 and the new name, "tmp/trash.<n>.<process>"; -ENOENT
 * when there is nothing. */
int store_trash(
	struct store *st, const char *path, char to[STORE_WORK_PATH], struct mlr_error *err);

/* The same, and delete it. What is not there is gone already: 0. */
int store_discard(struct store *st, const char *path, struct mlr_error *err);

#endif
