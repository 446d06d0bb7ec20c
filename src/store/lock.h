/*
 * Locks between processes: a file below the store's top, locked with flock(2), which the kernel
 * drops when its holder dies. Everything that must wait for another process goes through here.
 */
#ifndef MLR_STORE_LOCK_H
#define MLR_STORE_LOCK_H

#include "base/error.h"
#include "store/store.h"

enum store_lock_how {
	STORE_LOCK_SHARED,
	STORE_LOCK_EXCLUSIVE,
	STORE_LOCK_TRY, /* exclusive, but -EWOULDBLOCK instead of waiting */
};

/*
 * Lock a file, made when it is not there.
 *
 *   path  below the store's top
 *   what  completes "waiting for process 12 on 'host', which is …" when the wait gets long
 *
 * Returns a descriptor whose closing unlocks, or -errno; -ECANCELED as store_set_cancelled() says.
 */
int store_lock(struct store *st, const char *path, enum store_lock_how how, const char *what,
	struct mlr_error *err);

/* The same on a descriptor that already has the file open, whatever lock it holds now. */
int store_lock_change(struct store *st, int fd, const char *path, enum store_lock_how how,
	const char *what, struct mlr_error *err);

/* Remove the file while it is locked and unlock; fd is closed. */
void store_lock_remove(struct store *st, const char *path, int *fd);

#endif
