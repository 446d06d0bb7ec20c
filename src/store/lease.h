/*
 * Leases: a running container tells that its image is in use, so that rm leaves it alone.
 * Nobody stays behind to take a lease back; whether it is still meant is judged by /proc:
 * host, boot, PID namespace, pid and the process's start time are the lease's name.
 */
#ifndef MLR_STORE_LEASE_H
#define MLR_STORE_LEASE_H

#include "base/error.h"
#include "store/store.h"

#include <sys/types.h>

/*
 * The calling process (and what it becomes by execve) uses this image.
 *
 * Returns 0, or -ENOENT when rm took the image away just now. A store that cannot be written to, or
 * is full, gives 0 as well: the lease only keeps its owner's rm away.
 */
int store_lease_take(struct store *st, const char *manifest, struct mlr_error *err);

/* Returns 1 and one such process's pid and host when the image is in use, else 0. Leases whose
 * process on this host and boot has ended are deleted on the way. A lease of another host
 * or PID namespace counts for seven days. */
int store_lease_held(struct store *st, const char *manifest, pid_t *pid, char host[65]);

/* Delete every lease of this host whose process has ended. */
void store_lease_sweep(struct store *st);

#endif
