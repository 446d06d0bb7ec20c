/*
 * What the store's file system supports, cached in "probe.json". The cache is valid while the store
 * stays on a file system of the same type.
 */
#ifndef MLR_STORE_PROBE_H
#define MLR_STORE_PROBE_H

#include "base/filesystem.h"
#include "store/store.h"

/* Returns 0, or -ENOENT without a valid cache. */
int store_probe_get(struct store *st, struct filesystem_probe *ret);

/* A failure is only logged: the next pull probes again. */
void store_probe_put(struct store *st, const struct filesystem_probe *p);

#endif
