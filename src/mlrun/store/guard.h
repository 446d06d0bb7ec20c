/*
 * Who may write to a store: its owner, and nobody else, as others would write what we run. For this
 * room's other files.
 */
#ifndef MLR_STORE_GUARD_H
#define MLR_STORE_GUARD_H

#include "base/error.h"
#include "store/store.h"

#include <sys/stat.h>

/*
 * Refuse a store that others than its owner may write to (its top or one of its parts), and for
 * root one of another user's. Of one's own store containers/ is closed where it is found open. What
 * nobody else can enter costs no look at the parts.
 *
 *   top  of its top directory
 *
 * Returns 0, or -EACCES with the command that mends it.
 */
int store_guard(struct store *st, const struct stat *top, struct mlr_error *err);

/* Refuse another user's store. Returns -EACCES with who it is; why goes on from there. */
int store_refuse_user(const struct store *st, uid_t uid, const char *why, struct mlr_error *err);

/* Close a store of ours to writers: its top and its parts. Returns 0 or -errno. */
int store_guard_close(struct store *st, struct mlr_error *err);

#endif
