/* Takes the bits that let other users write from the store's trees (base/tighten.h). */
#ifndef MLR_STORE_TIGHTEN_H
#define MLR_STORE_TIGHTEN_H

#include "base/error.h"
#include "store/store.h"

/* Repair "layers/<hex>", "dir/<hex>" or "cover/<hex>". Other users' files stay unchanged; a warning
 * names one. */
int store_tighten(struct store *st, const char *path, struct mlr_error *err);

/* Repair all trees of an older store, and record the open directories beside the trees and in the
 * facts. Can be repeated after an interruption. */
int store_tighten_all(struct store *st, struct mlr_error *err);

/* Does the store's format guarantee such trees? */
int store_is_tight(const struct store *st);

#endif
