/*
 * What is known of the containers of `mlrun oci`: a private directory with a directory for each,
 * named as the container.
 *
 *   config.json   a copy, as the bundle's may change
 *   seccomp.json  its "linux.seccomp"
 *   state.json    the process and the bundle, once the container is created
 *   start         the socket at which the container waits for `start`
 *   making        locked (flock(2)) while `create` runs
 *   waiting       locked by the container's process until it executes the command
 *
 * Locks end with their holders, and a process is known by its pid and start time and the machine's
 * boot, so a kill at any moment leaves a state that is true.
 */
#pragma once

#include "bundle/bundle.h"
#include "bundle/talk.h"

struct state {
	int root;   /* the directory of all containers */
	int dir;    /* this one's */
	int making; /* the lock, in the process that creates it; or -1 */
	char *id;
	char *bundle;  /* the bundle's directory; NULL before the container is created */
	char *created; /* RFC 3339 */
	pid_t pid;
	unsigned long long start; /* proc_stat's */
	uint64_t mounts;          /* inode number of its mount namespace */
	uint64_t root_mount;      /* its root's, STATX_MNT_ID_UNIQUE of statx(2); 0: unknown */
	char boot[64];            /* of the machine, when it was made */
};

#define STATE_INIT                                  \
	{                                           \
		.root = -1, .dir = -1, .making = -1 \
	}
void bundle_state_done(struct state *s);

enum status { STATUS_CREATING, STATUS_CREATED, STATUS_RUNNING, STATUS_PAUSED, STATUS_STOPPED };

/* "creating" and so on. */
const char *bundle_state_status_name(enum status s);

/*
 * Make a container's directory, and hold the lock "making".
 *
 *   root  the directory of all containers; NULL: mlrun/oci in home_runtime_dir(), or without one
 *         $XDG_STATE_HOME/mlrun/oci-HOST
 *
 * Returns 0; -EINVAL for an invalid id; -EEXIST if there is such a container; -EACCES if root is
 * open to others.
 */
int bundle_state_make(const char *root, const char *id, struct state *ret, struct mlr_error *err);

/* Find a container. Returns 0 or -ENOENT. */
int bundle_state_open(const char *root, const char *id, struct state *ret, struct mlr_error *err);

/* Record the process, by what it said of itself, and the bundle; the container is created now. */
int bundle_state_write(struct state *s, pid_t pid, const struct talk_message *made,
	const char *bundle, struct mlr_error *err);

/* Look at the locks, the process and its control group. */
enum status bundle_state_status(const struct state *s);

/* Lock "waiting" in the calling process, until it executes a program. */
int bundle_state_wait_lock(const struct state *s, struct mlr_error *err);

/* Read the copy of config.json. Returns like bundle_parse(). */
int bundle_state_bundle(const struct state *s, struct bundle *ret, struct mlr_error *err);

/* The state as runtime-spec (runtime.md, "State") defines it; a new reference. */
json_t *bundle_state_json(const struct state *s, const struct bundle *b, enum status status);

/* The names of all containers, sorted. */
int bundle_state_list(const char *root, struct strv *ret, struct mlr_error *err);

/* Forget the container. */
int bundle_state_remove(const struct state *s, struct mlr_error *err);
