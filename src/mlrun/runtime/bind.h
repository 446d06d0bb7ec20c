/*
 * Bind mounts: clone parts of the host's tree as descriptors and attach them in the container's.
 *
 * This uses open_tree(2) and move_mount(2) (Linux 5.2) and mount_setattr(2) (Linux 5.12). If the
 * kernel or a sandbox refuses them, it uses mount(2) on /proc/self/fd paths instead; flags are then
 * set after mounting, one mount at a time.
 */
#pragma once

#include "base/base.h"

/* Translate a mount's enum plan_flag into mount(2)'s flags, MS_RDONLY and so on. */
unsigned long bind_mount_flags(unsigned flags);

/*
 * Clone what is at a path, with all mounts below it.
 *
 *   dirfd  as openat(2)'s
 *   flags  enum plan_flag's PLAN_READONLY, PLAN_NOSUID, PLAN_NODEV, PLAN_NOEXEC, for all the mounts
 *
 * Returns a descriptor that fstat(2) accepts, or -errno.
 */
int bind_take(int dirfd, const char *path, unsigned flags);

/* Does bind_take() clone? Otherwise what is mounted on a source later comes along with it. Known
 * after the first bind_take(). */
int bind_clones(void);

/*
 * Attach a cloned mount at a target; pass the same flags again.
 *
 *   target  an O_PATH descriptor
 *
 * Returns 0 or -errno.
 */
int bind_put(int mount, int target, unsigned flags);

/* Attach a cloned mount at a path below root that is known to contain no links. Returns 0 or
 * -errno; -ENOSYS if only bind_put() can do it. */
int bind_put_at(int mount, int root, const char *path);

/* Make one mount read-only, but not the mounts below it. Returns 0 or -errno. */
int bind_seal(int top);
