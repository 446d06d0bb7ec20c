/*
 * Locks that make others wait: a directory below the store's top that names its holder by his hold
 * (store/hold.h). It appears with that name in it by rename(2), which fails while another is there.
 *
 * They save work and nothing depends on them: what is made under a lock is published by a rename of
 * a private directory, which fails harmlessly when another was first.
 */
#ifndef MLR_STORE_LOCK_H
#define MLR_STORE_LOCK_H

#include "base/error.h"
#include "store/store.h"

struct store_lock;

/*
 * Take a lock; store_hold() came before. That of a holder who died, or lost his hold, is broken.
 *
 *   path  below the store's top, to end with ".lock"
 *   what  completes "waiting for process 12 on 'host', which is …" when the wait gets long
 *
 * Returns 0, or -errno; -ECANCELED as store_set_cancelled() says.
 */
int store_lock_take(struct store *st, const char *path, const char *what, struct store_lock **ret,
	struct mlr_error *err);

/* NULL is fine. A lock that was broken meanwhile, and is another's now, stays. */
void store_lock_release(struct store_lock *l);

/* Remove the lock at path if its holder is dead; seconds as for store_hold_alive(). */
void store_lock_sweep(struct store *st, const char *path, int seconds);

#endif
