/* The ids that processes of a fake root believe to have. For this room's other files. */
#pragma once

#include "fakeroot/fakeroot.h"

struct fakeroot_ids {
	pid_t pid;               /* of the process, not the thread */
	unsigned long start;     /* its start time, proc_pid_stat(5) */
	uint32_t uid[3], gid[3]; /* real, effective, saved */
	uint32_t fsuid, fsgid;
	int keeps_caps;    /* PR_SET_KEEPCAPS, prctl(2): */
	int has_kept_caps; /* it was root when it became another user, and has its rights on ids */
	int umask;         /* umask(2); -1: unknown */
	uint32_t *groups;  /* n_groups; NULL and -1: never set */
	int n_groups;
};

struct asked;

/* Take the first ids, before the first call. */
void fakeroot_ids_begin(const struct fakeroot_user *user);

/*
 * The ids of the calling process: its own, or those that it inherited.
 *
 *   change  they will be changed
 *
 * Returns NULL for root's as long as nobody has changed ids. Valid until the next call.
 */
struct fakeroot_ids *fakeroot_ids_of(const struct asked *a, int change);

/* The same, if they are not root's; NULL: root may do everything. */
struct fakeroot_ids *fakeroot_ids_of_user(const struct asked *a);

/* Give it n supplementary groups, which are copied; they are read back in order, as from the
 * kernel. */
void fakeroot_ids_set_groups(struct fakeroot_ids *ids, const uint32_t *groups, size_t n);

/* Is it one of its groups? */
int fakeroot_ids_has_group(const struct fakeroot_ids *ids, uint32_t gid);
