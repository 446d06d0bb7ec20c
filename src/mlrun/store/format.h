/*
 * The store's format: its parts, its number in "version", and the upgrade from an older one. For
 * the files of this room.
 *
 *   1  mlrun 0.1: locks by flock(2) on "lock" and on files in tmp/
 *   2  holds/ and squash/; locks are directories that name a hold (store/hold.h)
 *   3  only the owner may write to trees (base/tighten.h) or enter containers/
 *
 * Older formats can be read. The first process that changes something upgrades the store in place,
 * once no older mlrun works there. An older mlrun refuses a newer format.
 */
#pragma once

#include "store/store.h"

#define STORE_FORMAT 3

/* Everybody whom the top directory's mode lets in may read the store. */
#define STORE_UMASK 022

/* Make a new store at the handle's path, and missing directories above it. It is closed to other
 * users, and appears whole. Returns 0, too, if another process was first. */
int store_format_make(const struct store *st, struct mlr_error *err);

/* Read "version". If it is missing, create is set and the directory is empty, make a store there.
 */
int store_format_check(struct store *st, int create, struct mlr_error *err);
