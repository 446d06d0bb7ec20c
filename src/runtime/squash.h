/*
 * A squashfs file as a directory, for one container: a FUSE server of ours (runtime/squashfuse.c),
 * never the kernel's squashfs, which an ordinary user may not have and a stranger's image may
 * crash.
 */
#ifndef MLR_RUNTIME_SQUASH_H
#define MLR_RUNTIME_SQUASH_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Start the server of plan->squashfs, outside the namespaces to come. It is nobody's child, holds
 * none of our descriptors, and ends when the other end of the socket or the mount does.
 *
 * Returns the socket to it; -ENOENT and the like for the file.
 */
int squash_start(const struct plan *p, struct mlr_error *err);

/*
 * In the new namespaces, mount it on a directory.
 *
 *   sock  squash_start()'s; stays the caller's
 *   dir   where, a path
 *
 * Returns 0; -EPROTO for a file that is no image; -EACCES and the like for /dev/fuse, with the way
 * out.
 */
int squash_mount(const struct plan *p, int sock, const char *dir, struct mlr_error *err);

#endif
