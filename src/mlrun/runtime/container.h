/*
 * Containers as the kernel shows them; mlrun keeps no record of its own. The source of a
 * container's root mount, in /proc/PID/mountinfo, shows that mlrun made it and from which image.
 *
 *   mlrun:IMAGE          a container of its own
 *   mlrun@KEYS:IMAGE     one that others may enter (plan->share)
 *
 * A process inside cannot change this source. It could make a user namespace of its own there,
 * though, and a mount with any name. A container therefore counts only if its user namespace is a
 * child of the caller's.
 */
#pragma once

#include "plan/plan.h"

#define CONTAINER_KEY_SIZE 33 /* 32 hexadecimal digits and a NUL */

/*
 * The keys of a plan that shares a container:
 *
 *   word    who may read each other's memory: the same sharing word and the same id mapping
 *   inside  who can be in one container: also the same root, mounts and namespaces
 */
struct container_keys {
	char word[CONTAINER_KEY_SIZE], inside[CONTAINER_KEY_SIZE];
};

void container_keys(const struct plan *p, struct container_keys *ret);

/* The source of the root's mount, to free(); at most 255 bytes (the kernel's limit in
 * fsconfig(2)). */
char *container_mark(const struct plan *p);

struct container {
	uint64_t id; /* the same for all its processes, and unique among running containers */
	uid_t owner; /* of its user namespace; container_parse() does not set it */
	char *image; /* as the user named it, perhaps cut short */
	struct container_keys keys; /* empty if nobody may enter it */
};

void container_done(struct container *c);

/*
 * Find mlrun's mark in a text of proc_pid_mountinfo(5). Returns 0, or -ENOENT if mlrun did not
 * mount the root.
 */
int container_parse(const char *mountinfo, struct container *ret);

/*
 * Find the container that a process is in.
 *
 *   proc  a descriptor of /proc
 *
 * Returns 0; -ENOENT if it is in no container of mlrun's, or in one made inside another container;
 * -ESRCH if there is no such process; -EACCES if the caller may not inspect it, because it is
 * another user's or runs a program that its user may not read.
 */
int container_look(int proc, pid_t pid, struct container *ret);

/*
 * Does the container belong to another user? Nobody may enter such a container, root least of all:
 * a command of the other user's image would have root's rights on everything mounted there.
 */
int container_is_foreign(const struct container *c);

/* Is a user namespace, an open file of proc(5), that of a container of the caller's? */
int container_is_users(int proc, int userns);

/* Explain a failure of container_look(). Returns -EINVAL for -ENOENT and -EPERM for -EACCES. */
int container_refuse(pid_t pid, int r, struct mlr_error *err);
