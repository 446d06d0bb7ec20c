/*
 * One FUSE server, and one page cache, for all containers that a user starts from a squashfs file
 * on a node. Otherwise each start would bring a server that reads and decompresses the same blocks.
 *
 * Containers find each other as those that processes share do (runtime/share.h), but each has a
 * root, mounts and writable memory of its own. They share two things: the image's FUSE mount, and
 * the user namespace, outside which FUSE answers nobody. The mount lies beneath the root of each of
 * them, where its processes cannot see it (runtime/overlay.h), so a newcomer can clone it from any
 * of them, and the kernel ends it, and with it the server, when the last of them ends.
 *
 * Only those share that would get the same server: same file, identities, control group (its
 * processes may be killed together, as at the end of a Slurm job), CPUs, priority and limits.
 */
#ifndef MLR_RUNTIME_SQUASH_SHARE_H
#define MLR_RUNTIME_SQUASH_SHARE_H

#include "plan/plan.h"
#include "runtime/meeting.h"

#define SQUASH_SOURCE_SIZE (CONTAINER_KEY_SIZE + 24)

struct squash_share {
	struct meeting meeting; /* locked if this process has to start the server */
	char key[CONTAINER_KEY_SIZE];
	char source[SQUASH_SOURCE_SIZE]; /* of the FUSE mount; it bears the key */
	int is_first;                    /* nobody has the image yet: start the server */
	int is_child;                    /* a child of this process will execute the command */
	int mount;                       /* a detached clone of the mount, or -1 */
	int userns;                      /* the user namespace that it can be used in, or -1 */
};

#define SQUASH_SHARE_INIT                                           \
	{                                                           \
		.meeting = MEETING_INIT, .mount = -1, .userns = -1, \
	}

/*
 * Clone the mount from a living container of the image. If there is none, the next callers wait for
 * this process's container until it executes its command; but nobody waits for long, and any error
 * means that the start gets a server of its own.
 *
 *   image  the status of the plan's squashfs file
 *
 * Returns 1 with ret->mount and ret->userns; else 0.
 */
int squash_share_find(const struct plan *p, const struct stat *image, struct squash_share *ret);

/* Let others find this process's container once it has executed its command. Call it in the process
 * that becomes the command, after it has dropped its privileges. */
void squash_share_open(struct squash_share *s);

void squash_share_done(struct squash_share *s);

#endif
