/*
 * Locks that make others wait: a directory below the store's top that names its holder by the
 * holder's hold (store/hold.h). rename(2) puts it there with that name in it, and fails while
 * another lock exists.
 *
 * Locks only save work; nothing depends on them. What is made under a lock is published by a rename
 * of a private directory, which fails harmlessly if another process was first.
 */
#pragma once

#include "store/store.h"

struct store_lock;

/*
 * Take a lock, after store_hold(). Breaks the lock of a holder that died or lost its hold.
 *
 *   path  below the store's top; ends with ".lock"
 *   what  completes "waiting for process 12 on 'host', which is …" when the wait gets long
 *
 * Returns 0, or -errno; -ECANCELED as store_set_cancelled() says.
 */
int store_lock_take(struct store *st, const char *path, const char *what, struct store_lock **ret,
	struct mlr_error *err);

/* NULL is fine. A lock that was broken meanwhile and belongs to another process stays. */
void store_lock_release(struct store_lock *l);

/* Remove the lock at path if its holder is dead; seconds as for store_hold_alive(). */
void store_lock_sweep(struct store *st, const char *path, int seconds);
