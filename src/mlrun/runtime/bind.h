/*
 * Binds: parts of the host's tree, taken as descriptors and put into the container's.
 *
 * By open_tree(2), mount_setattr(2) and move_mount(2), which are of Linux 5.2 and 5.12. Where there
 * are none, or a sandbox refuses them, by mount(2) and the names of descriptors below
 * /proc/self/fd: the flags are then set on what is mounted already, one mount after the other.
 */
#ifndef MLR_RUNTIME_BIND_H
#define MLR_RUNTIME_BIND_H

#include "base/error.h"

/* A mount's enum plan_flag as mount(2) has them, MS_RDONLY and so on. */
unsigned long bind_mount_flags(unsigned flags);

/*
 * Take what is at a path, with all that is mounted below it.
 *
 *   dirfd  as openat(2)'s
 *   flags  enum plan_flag's PLAN_READONLY, PLAN_NOSUID, PLAN_NODEV, PLAN_NOEXEC, for all of it
 *
 * Returns a descriptor that fstat(2) knows, or -errno.
 */
int bind_take(int dirfd, const char *path, unsigned flags);

/*
 * Put it onto a place; its flags again.
 *
 *   target  an O_PATH descriptor
 *
 * Returns 0 or -errno.
 */
int bind_put(int mount, int target, unsigned flags);

/* Put it onto a path below root that is known to go through no links. Returns 0 or -errno; -ENOSYS:
 * by bind_put() only. */
int bind_put_at(int mount, int root, const char *path);

/* Make one mount read-only, and none below it. Returns 0 or -errno. */
int bind_seal(int top);

#endif
