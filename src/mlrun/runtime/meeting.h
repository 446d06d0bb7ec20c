/*
 * The place where processes that share a container find each other: a file in a directory of the
 * user's own in the node's memory, a line for each process. It is only a hint, since every process
 * of the user can write to it, one in a container too.
 */
#ifndef MLR_RUNTIME_MEETING_H
#define MLR_RUNTIME_MEETING_H

#include "base/error.h"
#include "runtime/container.h"

#include <stddef.h>

#define MEETING_NAME_SIZE 64

struct meeting {
	int proc; /* the host's /proc */
	int dir;
	int file; /* locked; -1: not yet */
	char name[MEETING_NAME_SIZE];
};

#define MEETING_INIT                              \
	{                                         \
		.proc = -1, .dir = -1, .file = -1 \
	}

/* One line, "PID START KEY\n". */
struct meeting_entry {
	long pid;
	unsigned long long start; /* clock ticks from boot: with it a pid is used once */
	char inside[CONTAINER_KEY_SIZE];
};

struct meeting_list {
	struct meeting_entry *v;
	size_t n;
};

#define MEETING_LIST_INIT \
	{                 \
		NULL, 0   \
	}
void meeting_list_done(struct meeting_list *l);

/* Parse the first line. Returns its length with the newline, or 0 for what is none. */
size_t meeting_entry_parse(const char *text, struct meeting_entry *ret);

/*
 * Find the directory (runtime/meeting_dir.h), and the file's name: of the word and of the
 * caller's user, mount and PID namespaces, because a word means one thing only where all see the
 * same users, files and processes.
 *
 * Returns 0; -EACCES when the directory is open to others.
 */
int meeting_open(const struct container_keys *k, struct meeting *ret, struct mlr_error *err);

enum meeting_lock { MEETING_SHARED, MEETING_ALONE };

/*
 * Open the file, which is made when it is missing, and lock it (flock(2)); a lock that is held is
 * given back first. The descriptor is close-on-exec, so that execve(2) unlocks. Returns 0, or
 * -ETIMEDOUT when somebody has kept the lock for a minute.
 */
int meeting_lock(struct meeting *m, enum meeting_lock how, struct mlr_error *err);

/* The lines, some of which may be of processes that have ended. What is no line ends the list. */
int meeting_read(const struct meeting *m, struct meeting_list *ret, struct mlr_error *err);

/* Locked alone: leave only the lines of those who live. */
int meeting_drop_dead(const struct meeting *m, const struct meeting_list *l, struct mlr_error *err);

/* Add the calling process, by the pid that the host's /proc gives it. */
int meeting_add(const struct meeting *m, const char *inside, struct mlr_error *err);

/* Remove some other files that name nobody alive. */
void meeting_sweep(const struct meeting *m);

/* Let go; the file stays, for others are named there. */
void meeting_done(struct meeting *m);

/* Milliseconds of a clock that only goes forward, and a short sleep, for waits with an end. */
long meeting_now_ms(void);
void meeting_pause_us(long us);

#endif
