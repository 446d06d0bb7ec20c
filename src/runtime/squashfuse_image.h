/*
 * A squashfs image as the FUSE server sees it: every operation on an inode by its number, answered
 * through libsquashfuse. For mlrun-squashfuse's own files.
 *
 * libsquashfuse is not safe for threads, so each thread has a handle with caches of its own on the
 * one descriptor. Numbers tell where an inode lies in the image and mean the same in every thread.
 */
#ifndef MLR_RUNTIME_SQUASHFUSE_IMAGE_H
#define MLR_RUNTIME_SQUASHFUSE_IMAGE_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <sys/types.h>

/* What every inode's owner is said to be. */
struct image_owner {
	uid_t uid;
	gid_t gid;
};

/*
 * Say which image to serve: open for reading, kept. Checked by opening a first handle.
 *
 * Returns 0, or -errno with *why, a literal: what kind of image it is not.
 */
int image_use(int fd, const struct image_owner *owner, const char **why);

extern const struct fuse_lowlevel_ops image_operations;

#endif
