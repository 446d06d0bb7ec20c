/*
 * Leases: a running container marks its image as in use, so that rm leaves it alone. No process
 * stays behind to remove a lease; /proc shows whether it is still valid. Its name is the process's
 * host, boot, PID namespace, pid and start time. Its content is the Slurm job, by which other nodes
 * judge it. The leases of one day, user and job are links to one file, ".<day>-<uid>", since a
 * start makes a new link faster than a new file.
 *
 * If others may write to leases/, they can invent leases. Another user's lease counts while the
 * process that it names runs here and is that user's, or, if nobody here can see that, for seven
 * days.
 *
 * Taking a lease also records the time of an image's last use, to the hour, as that of its facts
 * file.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/*
 * The calling process (and what it becomes by execve) uses this image.
 *
 * Returns 0, or -ENOENT if rm removed the image just now. Returns 0, too, if the store is read-only
 * or full: the lease only keeps its owner's rm away.
 */
int store_lease_take(struct store *st, const char *manifest, struct mlr_error *err);

/* A process that uses an image, or did when it was last seen. */
struct store_lease {
	char host[65];
	pid_t pid;
	int64_t since;  /* seconds since 1970, to the day */
	int here;       /* on this host, perhaps in another PID namespace, or … */
	int other_boot; /* … on a host of this name that has restarted since, or is another one */
	int is_seen;    /* runs, in this host, boot and PID namespace: /proc shows it */
	int is_running; /* it or its job is seen to run; else on another host or PID namespace */
	char job[JOB_NAME_SIZE]; /* "" outside Slurm */
};

/* Returns 1 and a process that uses the image, one seen running if possible, or 0. Deletes leases
 * whose process on this host and boot has ended, and those of other hosts and PID namespaces whose
 * Slurm job has ended; the others of these count for seven days, since nobody here can see whether
 * the process still runs. squeue is not asked for another user's job. */
int store_lease_held(struct store *st, const char *manifest, struct store_lease *ret);

/*
 * Leases on a container (store/container.h) instead of an image. The key is "sha256:<hex>" of its
 * name. Here it is an error if the lease cannot be written.
 */
int store_lease_take_key(struct store *st, const char *key, struct mlr_error *err);
void store_lease_return_key(struct store *st, const char *key);

enum store_lease_who {
	STORE_LEASE_ANYBODY,
	STORE_LEASE_NEIGHBOUR, /* another process that runs here */
	STORE_LEASE_FAR,       /* not visible here: on another host or in another PID namespace */
};

/* Like store_lease_held(), for some processes only. */
int store_lease_find(
	struct store *st, const char *key, enum store_lease_who who, struct store_lease *ret);

/* Delete leases of processes that are not seen to run. */
void store_lease_drop_unseen(struct store *st, const char *key);

/* When a process last used an image, to the hour, in seconds since 1970; 0 without facts. */
int64_t store_lease_last_use(struct store *st, const char *manifest);

/* Delete every lease on an image that is gone. */
void store_lease_drop(struct store *st, const char *manifest);

/* Delete every lease that is no longer valid, as store_lease_held() judges. */
void store_lease_sweep(struct store *st);
