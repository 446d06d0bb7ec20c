/*
 * Serves an image by FUSE: its operations, and what runs ahead of them. For mlrun-squashfuse's own
 * files.
 */
#pragma once

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

/* --- server_warm.c: decompresses what a start will read, while the container is being made --- */

/*
 * Prefetch a command's file, its interpreter (of a script) or loader (of an ELF file), the C
 * library, and what mlrun itself looks at. Once the kernel has looked up such a file, put it into
 * the kernel's cache. A wrong guess costs some time of an idle CPU. Returns when all is done, or
 * after half a second.
 *
 *   command  as execvp(3) takes it
 *   path     PATH to look it up in
 */
void warm_command(const struct ops *o, const char *command, const char *path);

/* To be called when the kernel has looked up an inode. */
void warm_looked_up(uint64_t ino);

/*
 * --- server_ahead.c: prepares what is likely to be requested next ---
 *
 * A request costs two context switches, more than its answer:
 *
 *   - The rest of a block goes into the kernel's cache along with the requested part.
 *   - If a file is read from front to back, its next blocks are decompressed.
 *   - If small files are read in the image's order (tar, cp -r, grep -r), several at a time are put
 *     into the kernel's cache.
 */

/*
 * Call it after each read request is answered. It acts only while another thread waits for
 * requests.
 *
 *   offset  of the request; the n pieces are its answer
 */
void ahead_of_read(const struct ops *o, uint64_t ino, uint64_t offset,
	const struct image_piece *pieces, size_t n);

/*
 * Put a piece of a file, at offset, into the kernel's cache, if another thread waits for requests
 * and none is doing the same.
 *
 * Returns 0; -EAGAIN; -ENOENT if the kernel has not looked up the file, and the like.
 */
int ahead_put(const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p);
