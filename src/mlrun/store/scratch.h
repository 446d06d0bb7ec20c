/* Directories for work that ends with this process, below the store's tmp/. */
#ifndef MLR_STORE_SCRATCH_H
#define MLR_STORE_SCRATCH_H

#include "base/error.h"
#include "store/store.h"

/*
 * Make an empty directory, mode 0700, "tmp/<what>-<hex>.<hold>". If this process is killed, a sweep
 * removes it.
 *
 *   ret  its absolute path, to free()
 */
int store_scratch_make(struct store *st, const char *what, char **ret, struct mlr_error *err);

/* Remove it, with all that is in it. NULL is fine. */
void store_scratch_remove(struct store *st, const char *path);

#endif
