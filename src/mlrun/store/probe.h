/*
 * What the store's file system supports, cached in "probe.json". The cache is valid while the store
 * stays on a file system of the same type.
 */
#pragma once

#include "base/filesystem.h"
#include "store/store.h"

/* Returns 0, or -ENOENT without a valid cache. */
int store_probe_get(struct store *st, struct filesystem_probe *ret);

/* runtime_probe(), which mounts and is therefore of another room. */
typedef int (*store_probe_fn)(int dir_fd, struct filesystem_probe *ret, struct mlr_error *err);

/* Probe in a directory of the store, and cache what was found. Returns 0 or -errno; a cache that
 * cannot be written is only logged. */
int store_probe_try(struct store *st, store_probe_fn probe, struct filesystem_probe *ret,
	struct mlr_error *err);
