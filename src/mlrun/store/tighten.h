/*
 * The store's trees as they are to be: without bits that let others than their owner write
 * (base/tighten.h).
 */
#ifndef MLR_STORE_TIGHTEN_H
#define MLR_STORE_TIGHTEN_H

#include "base/error.h"
#include "store/store.h"

/* Mend "layers/<hex>", "dir/<hex>" or "cover/<hex>". Files of other users stay as they are; a
 * warning names one. */
int store_tighten(struct store *st, const char *path, struct mlr_error *err);

/* All of a store of an older format: its trees, with what they no longer show noted beside them and
 * in the facts of its images. To be done again where it was cut short. */
int store_tighten_all(struct store *st, struct mlr_error *err);

/* Does the store's format promise such trees? */
int store_is_tight(const struct store *st);

#endif
