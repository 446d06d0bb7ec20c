/* A living process as the way into its namespaces (setns(2)). */
#ifndef MLR_RUNTIME_DOOR_H
#define MLR_RUNTIME_DOOR_H

#include "base/error.h"

#include <sys/types.h>

struct door {
	int proc;  /* /proc; the caller's */
	int pidfd; /* -1: there is none (before Linux 5.3, or in a sandbox) */
	pid_t pid;
	unsigned long long start;
};

#define DOOR_INIT            \
	{                    \
		-1, -1, 0, 0 \
	}

/*
 * Take hold of a process.
 *
 *   proc  a descriptor of /proc; must stay open as long as the door
 *
 * Returns 0, or -ESRCH when it does not live (any more).
 */
int door_open(int proc, pid_t pid, struct door *ret);

/* Does it live still? So that what /proc said of its pid was said of it. */
int door_lives(const struct door *d);

/* The namespaces, as CLONE_NEW... bits, that the process has others of than the caller. -EACCES
 * when it may not be looked at. */
int door_differs(const struct door *d);

/*
 * Enter these of its namespaces; with CLONE_NEWNS its root becomes "/" and the working directory,
 * with CLONE_NEWPID children will be in it. All in one call where the kernel can (Linux 5.8).
 *
 * The caller stops being dumpable, so that no process in there may look into it (execve(2) ends
 * that).
 *
 * Returns 0; -ESRCH when the process has ended; -EPERM when it may not be looked at (ptrace(2)): it
 * has yet to execute its command, or runs another user's program that may not be read. After these
 * two the caller is where he was, and as dumpable as he was.
 */
int door_enter(const struct door *d, int namespaces, struct mlr_error *err);

void door_close(struct door *d);

#endif
