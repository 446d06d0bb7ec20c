/* A door: a living process through which its namespaces can be entered (setns(2)). */
#pragma once

#include "base/base.h"

#define DOOR_KINDS 7 /* of namespaces */

struct door {
	int proc;  /* /proc; the caller's */
	int pidfd; /* -1 if the kernel has none (before Linux 5.3, or in a sandbox) */
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
 * Returns 0, or -ESRCH if the process has ended.
 */
int door_open(int proc, pid_t pid, struct door *ret);

/* Is the process still alive? If so, what /proc said of its pid was about this process. */
int door_lives(const struct door *d);

/* The namespaces, as CLONE_NEW... bits, in which the process differs from the caller. -EACCES if
 * the caller may not inspect it. */
int door_differs(const struct door *d);

/*
 * Enter these namespaces of the process. With CLONE_NEWNS its root becomes "/" and the working
 * directory; with CLONE_NEWPID the caller's children will be in its PID namespace. One call where
 * the kernel can (Linux 5.8).
 *
 * The caller stops being dumpable until execve(2), so that no process inside may inspect it.
 *
 * Returns 0; -ESRCH if the process has ended; -EPERM if the caller may not inspect it (ptrace(2)):
 * it has not yet executed its command, or runs a program that its user may not read. After these
 * two errors the caller's namespaces and dumpability are unchanged.
 */
int door_enter(const struct door *d, int namespaces, struct mlr_error *err);

/*
 * The same for a process that lets nobody inspect it, and gives its namespaces itself.
 *
 * door_offer() opens the caller's own: fds[] to close. Returns 0 or -errno. door_take() enters
 * those in which the caller is not, and returns them as CLONE_NEW... bits, or -errno.
 */
int door_offer(int fds[DOOR_KINDS]);
int door_take(const int fds[DOOR_KINDS], struct mlr_error *err);

void door_close(struct door *d);
