/*
 * Caches decompressed blocks of an image: many small files share one block, and the kernel requests
 * a large block in parts. For mlrun-squashfuse's own files.
 *
 * Thread-safe. A thread that needs a block which another is decompressing waits for it. Memory is
 * bounded: a new block replaces the least recently used.
 */
#pragma once

#include "squashfs/server_image.h"

struct block {
	char *data;
	size_t size;
};

/*
 * max  bytes to keep, at least 4 blocks; blocks in use may exceed it
 *
 * Returns NULL if there is no memory. The image must outlive the cache.
 */
struct blocks *blocks_new(const struct image *im, size_t max);
void blocks_free(struct blocks *b);

/*
 * Get the block that holds a piece, which must not be a hole, for blocks_put(). It has all of the
 * piece's bytes.
 *
 * Returns 0; -EIO, -ENOMEM.
 */
int blocks_get(struct blocks *b, const struct image_piece *p, const struct block **ret);

void blocks_put(struct blocks *b, const struct block *block);

/* Prefetch a block. Returns 1 if it had to be read. */
int blocks_expect(struct blocks *b, const struct image_piece *p);
