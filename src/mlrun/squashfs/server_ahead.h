/*
 * What is likely to be asked next, done before it is asked: a question costs two switches between
 * processes, which is more than answering it. For mlrun-squashfuse's own files.
 *
 * - The rest of a block goes into the kernel's cache with the part that was asked for.
 * - A file that is read from front to back has its next blocks decompressed.
 * - Small files that are read in the image's order (tar, cp -r, grep -r) are put into the kernel's
 * cache some at a time.
 */
#ifndef MLR_SQUASHFS_SERVER_AHEAD_H
#define MLR_SQUASHFS_SERVER_AHEAD_H

#include "squashfs/server_ops.h"

/*
 * After a read request has been answered. Does something only while another thread waits for
 * requests.
 *
 *   offset  of the request; the n pieces are its answer
 */
void ahead_of_read(const struct ops *o, uint64_t ino, uint64_t offset,
	const struct image_piece *pieces, size_t n);

/*
 * Put a piece of a file, which lies at offset, into the kernel's cache, if another thread waits for
 * requests and nobody else is at it.
 *
 * Returns 0; -EAGAIN; -ENOENT when the kernel has not looked up the file, and the like.
 */
int ahead_put(const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p);

#endif
