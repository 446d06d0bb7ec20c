/*
 * The store's format: which parts there are, its number in "version", and the way from an older one
 * to this. For this room's other files.
 *
 *   1  mlrun 0.1: locks by flock(2) on "lock" and on files in tmp/
 *   2  holds/ and squash/; locks are directories that name a hold (store/hold.h)
 *   3  no tree has bits that let others than its owner write (base/tighten.h), and containers/ is
 *      closed to them
 *
 * A store of an older format is read as it is; the first that changes something upgrades it in
 * place, once no older mlrun is at work there. An older mlrun refuses a newer format.
 */
#ifndef MLR_STORE_FORMAT_H
#define MLR_STORE_FORMAT_H

#include "base/error.h"
#include "store/store.h"

#define STORE_FORMAT 3

/* What is made in a store can be read by whoever the modes of its top directory let in. */
#define STORE_UMASK 022

/* Make a new store at the handle's path, which nobody sees before it is whole: closed to others,
 * with the directories above it where they are missing. That another is first is no failure. */
int store_format_make(const struct store *st, struct mlr_error *err);

/* Read "version"; where it is missing and create is set, make a store of an empty directory. */
int store_format_check(struct store *st, int create, struct mlr_error *err);

#endif
