/*
 * The store's format: which parts there are, its number in "version", and the way from an older one
 * to this. For this room's other files.
 *
 *   1  mlrun 0.1: locks by flock(2) on "lock" and on files in tmp/
 *   2  holds/ and squash/; locks are directories that name a hold (store/hold.h)
 *
 * A format 1 store is read as it is; the first that changes something upgrades it in place, once
 * no older mlrun is at work there. An older mlrun refuses format 2.
 */
#ifndef MLR_STORE_FORMAT_H
#define MLR_STORE_FORMAT_H

#include "base/error.h"
#include "store/store.h"

#define STORE_FORMAT 2

/* Read "version"; where it is missing and create is set, make a store of an empty directory. */
int store_format_check(struct store *st, int create, struct mlr_error *err);

#endif
