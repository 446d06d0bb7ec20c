/*
 * Containers as the kernel shows them. There is no record of our own: the source of a container's
 * root mount, in /proc/PID/mountinfo, tells that mlrun made it and of what.
 *
 *   mlrun:IMAGE          a container of its own
 *   mlrun@KEYS:IMAGE     one that others may enter (plan->share)
 *
 * A process inside cannot change it. What it could do is to make a user namespace of its own, in
 * there, and a mount that bears any name; so a container counts only with a user namespace that is
 * a child of the caller's.
 */
#ifndef MLR_RUNTIME_CONTAINER_H
#define MLR_RUNTIME_CONTAINER_H

#include "base/error.h"
#include "plan/plan.h"

#include <stdint.h>
#include <sys/types.h>

#define CONTAINER_KEY_SIZE 33 /* 32 hexadecimal digits and a NUL */

/*
 * Of a plan with a word to share by:
 *
 *   word    who may read each other's memory: one word, one mapping of ids
 *   inside  who can be in one container: also one root, the same mounts and namespaces
 */
struct container_keys {
	char word[CONTAINER_KEY_SIZE], inside[CONTAINER_KEY_SIZE];
};

void container_keys(const struct plan *p, struct container_keys *ret);

/* The source for the root's mount, at most 255 bytes (the kernel's limit in fsconfig(2)), to
 * free(). */
char *container_mark(const struct plan *p);

struct container {
	uint64_t id; /* the same for all processes in it, of no other that runs now */
	uid_t owner; /* who made its user namespace; container_parse() cannot tell */
	char *image; /* as the user named it; cut when long */
	struct container_keys keys; /* empty where it is nobody's to enter */
};

#define CONTAINER_INIT \
	{              \
		0      \
	}
void container_done(struct container *c);

/*
 * Find the mark in a text of proc_pid_mountinfo(5). Returns 0, or -ENOENT when the root is no mount
 * of mlrun's.
 */
int container_parse(const char *mountinfo, struct container *ret);

/*
 * The container that a process is in.
 *
 *   proc  a descriptor of /proc
 *
 * Returns 0; -ENOENT: in none of mlrun's, or in one made in another container; -ESRCH: no such
 * process; -EACCES: it may not be looked at: it is another user's, or runs another user's program
 * that may not be read.
 */
int container_look(int proc, pid_t pid, struct container *ret);

/*
 * Is it another user's? Nobody enters such a one, root least of all: a command of a stranger's
 * image would have root's rights on what the stranger has mounted there.
 */
int container_is_foreign(const struct container *c);

/* Say why there is none, after container_look(). Returns -EINVAL for -ENOENT, -EPERM for
 * -EACCES. */
int container_refuse(pid_t pid, int r, struct mlr_error *err);

#endif
