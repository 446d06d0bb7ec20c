/*
 * A squashfs file as a directory, for one container: a FUSE server of ours
 * (squashfs/mlrun-squashfuse.c), never the kernel's squashfs, which an ordinary user may not have
 * and a stranger's image may crash.
 */
#ifndef MLR_RUNTIME_SQUASH_H
#define MLR_RUNTIME_SQUASH_H

#include "base/error.h"
#include "plan/plan.h"

#include <sched.h>

struct squash_server {
	int sock;       /* to it */
	pid_t pid;      /* what we have started, which starts the server and ends */
	int is_pinned;  /* to one CPU, until squash_done() */
	cpu_set_t cpus; /* ours before that */
};

#define SQUASH_SERVER_INIT \
	{                  \
		.sock = -1 \
	}

/*
 * Start the server of plan->squashfs, outside the namespaces to come. It is nobody's child, holds
 * none of our descriptors, and ends when the other end of the socket or the mount does. It comes up
 * while we go on.
 *
 * Until squash_done() the process stays on the CPU where it is, and the server answers there: what
 * is asked while a container is made takes a microsecond to answer, whereas another CPU, which
 * sleeps, takes tens to wake up.
 *
 * Returns 0; -ENOENT and the like for the file; -ENOSYS when there is no such program.
 */
int squash_start(const struct plan *p, struct squash_server *ret, struct mlr_error *err);

/*
 * In the new namespaces, mount the image on a directory. Nothing may look into it before
 * squash_wait().
 *
 * Returns 0; -EACCES and the like for /dev/fuse, with the way out.
 */
int squash_mount(const struct plan *p, const struct squash_server *server, const char *dir,
	struct mlr_error *err);

/* Wait for the server to be at work. Returns 0; -EPROTO for a file that is no image. */
int squash_wait(const struct plan *p, const struct squash_server *server, struct mlr_error *err);

/*
 * In the container, look at what execve(2) and the loader will look at, while it costs little to
 * ask. What is not there is not told.
 */
void squash_look_at_command(const struct plan *p);

/* The container is made: use all CPUs again. */
void squash_done(struct squash_server *server);

#endif
