/* An image's handle, shared by the files that read it: server_image.c and server_xattr.c. */
#pragma once

#include "squashfs/server_image.h"

#include <squashfuse/squashfuse.h>

/* The longest name that an image can claim: libsquashfuse does not check it. */
#define IMAGE_NAME_ROOM (65536 + 64)

/* The positions of 64 blocks of a file. To find one, the sizes of all earlier blocks must be added
 * up. */
#define CHUNK_BLOCKS 64
#define CHUNKS       64

struct chunk {
	uint64_t ino;   /* 0: unused */
	uint64_t first; /* number of the first block */
	size_t n;
	uint64_t pos[CHUNK_BLOCKS];
	uint32_t header[CHUNK_BLOCKS];
};

struct image {
	pthread_mutex_t lock;
	sqfs fs;
	uid_t uid;
	gid_t gid;
	int has_xattrs;
	uint64_t list_blocks_max; /* the most metadata blocks that a file's list of blocks may take
				   */
	char name[IMAGE_NAME_ROOM]; /* the name being read; protected by the lock */
	struct chunk chunks[CHUNKS];
};

/* For auto_call. */
static inline void image_unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* Hold the lock until the end of the block. */
#define HOLD(im)                                                      \
	auto_call(image_unlock) pthread_mutex_t *held_ = &(im)->lock; \
	pthread_mutex_lock(held_)

/*
 * Is an offset within its metadata block? libsquashfuse does not check, and would read beyond it.
 * The lock must be held.
 */
int image_is_inside(struct image *im, uint64_t pos, size_t offset);

/* Get an inode by FUSE's number. Returns 0 or -EIO. The lock must be held. */
int image_find(struct image *im, uint64_t ino, sqfs_inode *ret);
