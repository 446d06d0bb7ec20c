/*
 * Prepares what is likely to be requested next: a request costs two context switches, more than its
 * answer. For mlrun-squashfuse's own files.
 *
 * - The rest of a block goes into the kernel's cache along with the requested part. - If a file is
 * read from front to back, its next blocks are decompressed. - If small files are read in the
 * image's order (tar, cp -r, grep -r), several at a time are put
 *   into the kernel's cache.
 */
#ifndef MLR_SQUASHFS_SERVER_AHEAD_H
#define MLR_SQUASHFS_SERVER_AHEAD_H

#include "squashfs/server_ops.h"

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

#endif
