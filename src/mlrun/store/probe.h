/*
 * What the store's file system lets a user do, as kept in "probe.json", so that it is tried only
 * once. It counts as long as the store stays on a file system of the same type.
 */
#ifndef MLR_STORE_PROBE_H
#define MLR_STORE_PROBE_H

#include "base/filesystem.h"
#include "store/store.h"

/* Returns 0, or -ENOENT if nothing is kept, or nothing that counts. */
int store_probe_get(struct store *st, struct filesystem_probe *ret);

/* A failure is only logged: the next pull tries again. */
void store_probe_put(struct store *st, const struct filesystem_probe *p);

#endif
