/*
 * Decompressed blocks of an image, kept for whoever asks next: many small files share one block,
 * and the kernel asks for a large block in parts. For mlrun-squashfuse's own files.
 *
 * Any number of threads may ask. One that asks for a block that another is decompressing waits for
 * it. Memory is bounded: a new block takes the place of the one that is unused for longest.
 */
#ifndef MLR_SQUASHFS_SERVER_BLOCKS_H
#define MLR_SQUASHFS_SERVER_BLOCKS_H

#include "squashfs/server_image.h"

struct block {
	char *data;
	size_t size;
};

/*
 *   max  bytes to keep, 4 blocks at least; what is in use may go beyond it
 *
 * Returns NULL when there is no memory. The image must outlive it.
 */
struct blocks *blocks_new(const struct image *im, size_t max);
void blocks_free(struct blocks *b);

/*
 * The block in which a piece lies, which must not be a hole's, for blocks_put(). It has all of the
 * piece's bytes.
 *
 * Returns 0; -EIO, -ENOMEM.
 */
int blocks_get(struct blocks *b, const struct image_piece *p, const struct block **ret);

void blocks_put(struct blocks *b, const struct block *block);

/* Have a block at hand that will be wanted soon. Returns 1 when that took some doing. */
int blocks_expect(struct blocks *b, const struct image_piece *p);

#endif
