/*
 * Leases: a running container tells that its image is in use, so that rm leaves it alone.
 * Nobody stays behind to take a lease back; whether it is still meant is judged by /proc:
 * host, boot, PID namespace, pid and the process's start time are the lease's name. Its content is
 * the Slurm job, by which it is judged from other nodes. The leases of one day, user and job are
 * names of one file, ".<day>-<uid>", since a new name costs a start less than a new file.
 *
 * Where others may write to leases/, anybody can make any up: another user's counts as long as the
 * process that it names runs here and is his, or for the seven days of one that cannot be judged.
 *
 * Taking one also tells the time of an image's last use: that of its facts file, to the hour.
 */
#ifndef MLR_STORE_LEASE_H
#define MLR_STORE_LEASE_H

#include "base/error.h"
#include "job/job.h"
#include "store/store.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The calling process (and what it becomes by execve) uses this image.
 *
 * Returns 0, or -ENOENT when rm took the image away just now. A store that cannot be written to, or
 * is full, gives 0 as well: the lease only keeps its owner's rm away.
 */
int store_lease_take(struct store *st, const char *manifest, struct mlr_error *err);

/* A process that uses an image, or did when it was last seen. */
struct store_lease {
	char host[65];
	pid_t pid;
	int64_t since;  /* seconds since 1970, to the day */
	int here;       /* it is of this host (but perhaps of another PID namespace), or … */
	int other_boot; /* … of one of this name: it was restarted since, or there are two such */
	int is_seen;    /* in /proc: it is of this host, boot and PID namespace, and runs */
	int is_running; /* seen here and now, or its job; else of another host or PID namespace */
	char job[JOB_NAME_SIZE]; /* "" outside Slurm */
};

/* Returns 1 and one such process when the image is in use, one seen running if there is, else 0.
 * Leases whose process on this host and boot has ended are deleted on the way, and those of
 * other hosts and PID namespaces whose Slurm job has; any other of these counts for seven days, as
 * nobody here can see whether it still runs. Another user's job is not asked for. */
int store_lease_held(struct store *st, const char *manifest, struct store_lease *ret);

/*
 * Leases on what is no image: a container (store/container.h). The key is "sha256:<hex>" of
 * whatever names it. Here a lease that cannot be written is a failure.
 */
int store_lease_take_key(struct store *st, const char *key, struct mlr_error *err);
void store_lease_return_key(struct store *st, const char *key);

enum store_lease_who {
	STORE_LEASE_ANYBODY,
	STORE_LEASE_NEIGHBOUR, /* another process that runs here */
	STORE_LEASE_FAR,       /* not seen from here: of another host or PID namespace */
};

/* store_lease_held() of some only. */
int store_lease_find(
	struct store *st, const char *key, enum store_lease_who who, struct store_lease *ret);

/* Delete those of processes that are not seen to run. */
void store_lease_drop_unseen(struct store *st, const char *key);

/* When a process last used an image, to the hour, in seconds since 1970; 0 when it has no facts. */
int64_t store_lease_last_use(struct store *st, const char *manifest);

/* Delete every lease on an image that is gone. */
void store_lease_drop(struct store *st, const char *manifest);

/* Delete every lease that is not meant any more, as store_lease_held() judges. */
void store_lease_sweep(struct store *st);

#endif
