/*
 * What a careless copy of a store loses, checked at each opening: a tree with all that removed
 * files need, "mark/gone" (a whiteout) in "mark" (opaque). For the files of this room.
 */
#ifndef MLR_STORE_MARK_H
#define MLR_STORE_MARK_H

#include "base/error.h"
#include "store/store.h"

/* Make the mark unless it is there, or the file system keeps none. Errors are only logged: the mark
 * guards, nothing needs it. */
void store_make_mark(struct store *st);

/* Refuse a store whose mark lost something. Returns 0, also without a mark, or -EUCLEAN. */
int store_check_mark(const struct store *st, struct mlr_error *err);

#endif
