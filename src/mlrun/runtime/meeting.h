/*
 * Where processes that share a container find each other: a file with a line for each process, in a
 * private directory in the node's memory. The file is only a hint, since any process of the user
 * can write to it, even one in a container.
 */
#pragma once

#include "runtime/container.h"

#define MEETING_NAME_SIZE 64

struct meeting {
	int proc; /* the host's /proc */
	int dir;
	int file; /* locked; -1 until it is */
	char name[MEETING_NAME_SIZE];
};

#define MEETING_INIT                              \
	{                                         \
		.proc = -1, .dir = -1, .file = -1 \
	}

/* A line, "PID START KEY\n". */
struct meeting_entry {
	long pid;
	unsigned long long start; /* clock ticks since boot; pid and start identify a process */
	char inside[CONTAINER_KEY_SIZE];
};

struct meeting_list {
	struct meeting_entry *v;
	size_t n;
};

void meeting_list_done(struct meeting_list *l);

/* Parse the first line. Returns its length with the newline, or 0 if it is malformed. */
size_t meeting_entry_parse(const char *text, struct meeting_entry *ret);

/*
 * Find the directory and choose the file's name. The name is made from the
 * word and the caller's user, mount and PID namespaces, because a word means one thing only among
 * processes that see the same users, files and processes.
 *
 * Returns 0; -EACCES if others may enter the directory.
 */
int meeting_open(const struct container_keys *k, struct meeting *ret, struct mlr_error *err);

enum meeting_lock { MEETING_SHARED, MEETING_ALONE };

/*
 * Open the file, making it if it is missing, lock it (flock(2)), and read the lines; their
 * processes may have ended. A malformed line ends the list. A long list loses its dead processes
 * under MEETING_ALONE, and is empty under MEETING_SHARED. A lock already held is released first.
 * The descriptor is close-on-exec, so execve(2) unlocks it. Returns 0, or -ETIMEDOUT if another
 * process has kept the lock for wait_ms.
 */
int meeting_lock(struct meeting *m, enum meeting_lock how, long wait_ms, struct meeting_list *ret,
	struct mlr_error *err);

/* Let others lock the file, which stays open. */
void meeting_unlock(const struct meeting *m);

/*
 * Use a process of the list: 0 if it served; -EPERM if it lives and may serve soon, as one that has
 * not executed its command yet; -ENOTRECOVERABLE if no other may be tried; else an error.
 */
typedef int meeting_use(void *ctx, const struct meeting_entry *e);

/*
 * Use the first process of the list that serves. Waits for those that return
 * -EPERM. Returns 1; 0 if none serves; -EPERM or -ENOTRECOVERABLE, with *pid.
 */
int meeting_use_any(
	const struct meeting_list *l, meeting_use *use, void *ctx, long wait_ms, long *pid);

/* Remove the lines of processes that have ended. Needs MEETING_ALONE. */
int meeting_drop_dead(const struct meeting *m, const struct meeting_list *l, struct mlr_error *err);

/* Add the calling process, by its pid in the host's /proc. */
int meeting_add(const struct meeting *m, const char *inside, struct mlr_error *err);

/* Remove some other files that list no living process. */
void meeting_sweep(const struct meeting *m);

/* Unlock and close; the file stays, as it lists other processes. */
void meeting_done(struct meeting *m);

/* --- the user's private directory in the node's memory --- */

#define MEETING_PLACE "/dev/shm"

/*
 * Find the directory, or make it: mlrun-UID, or mlrun-UID.1 and so on if other users have taken the
 * name. If they have taken all of these, it gets a random name, and a warning says so when it is
 * made. All processes of a user find the same directory.
 *
 * Returns a descriptor, or -EACCES if others may enter it.
 */
int meeting_dir_open(struct mlr_error *err);
