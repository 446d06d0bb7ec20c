/*
 * FUSE's operations on an image. For mlrun-squashfuse's own files.
 */
#ifndef MLR_SQUASHFS_SERVER_OPS_H
#define MLR_SQUASHFS_SERVER_OPS_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include "squashfs/server_blocks.h"

/* The operations' context, a session's user data. */
struct ops {
	struct fuse_session *session;
	struct image *image;
	struct blocks *blocks;
	int threads;       /* threads that may answer at once */
	int (*idle)(void); /* does a thread wait for a request? */
};

extern const struct fuse_lowlevel_ops ops_table;

#endif
