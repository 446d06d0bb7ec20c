/*
 * Mounts a squashfs file as a directory for a container, with our own FUSE server
 * (squashfs/mlrun-squashfuse.c). The kernel's squashfs is not used: an ordinary user may not mount
 * it, and a hostile image may crash it.
 */
#pragma once

#include "runtime/meeting.h"

#include "plan/plan.h"

#include <sched.h>

struct squash_server {
	int sock;       /* to the server; -1: another container's server is shared */
	int cpu;        /* the process is kept on it until squash_done(); -1: on none */
	cpu_set_t cpus; /* the process's CPUs before that */
	const struct squash_share *share;
};

#define SQUASH_SERVER_INIT            \
	{                             \
		.sock = -1, .cpu = -1 \
	}

/*
 * Find another container's mount of plan->squashfs to share, or start a server, outside the
 * namespaces to come. The server is not our child, inherits no descriptors, and ends when the
 * socket's other end or the mount goes away. This returns while it is still starting.
 *
 * Until squash_done() this process stays on its current CPU, and the server answers there: a
 * request then takes a microsecond, whereas waking another CPU takes tens.
 *
 * Returns 0; -ENOENT and the like for the file; -ENOSYS if the server's program is missing.
 */
int squash_start(const struct plan *p, struct squash_share *share, struct squash_server *ret,
	struct mlr_error *err);

/*
 * Mount the image, or the shared mount, on a directory, in the new namespaces; the shared one's
 * user namespace has to be entered first. Nothing may access it before squash_wait().
 *
 * Returns 0; -EACCES and the like for /dev/fuse, with a hint.
 */
int squash_mount(const struct plan *p, const struct squash_server *server, const char *dir,
	struct mlr_error *err);

/* Wait until the server is ready, if it was started. Returns 0; -EPROTO if the file is not a
 * squashfs image. */
int squash_wait(const struct plan *p, const struct squash_server *server, struct mlr_error *err);

/*
 * Open the plan's command in the image, at root. The server then puts it into the page cache while
 * the container is being made (squashfs/server_warm.c): only files that the kernel has looked up
 * can be put there. Returns a descriptor, or -errno if there is none in the image.
 */
int squash_open_command(const struct plan *p, int root);

/* Look up what the loader will open, while requests are cheap. command may be -errno. */
void squash_look_at_loader(int root, int command);

/* Use all CPUs again, once the container is made. */
void squash_done(struct squash_server *server);

/* --- one server for several containers --- */

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
