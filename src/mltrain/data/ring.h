/*
 * Decodes pictures of a set that is too large for memory: threads fill a ring of batches ahead. For
 * loader.c.
 */
#ifndef MLT_DATA_RING_H
#define MLT_DATA_RING_H

#include "base/error.h"
#include "data/decode.h"

struct ring;

struct ring_options {
	const char *dir;
	const struct image_file *files; /* borrowed for the ring's life, like dir */
	struct image_size size;
	int rows;    /* images of a batch */
	int ahead;   /* most batches taken at once; as many are decoded meanwhile */
	int threads; /* decoding threads */
};

/* Returns 0, -ENOMEM with the bytes, or -EAGAIN if no thread can start. */
int ring_open(const struct ring_options *o, struct ring **ret, struct mlr_error *err);
void ring_close(struct ring **r);

/*
 * Start anew. Row k of batch b is the file order[b * stride + k]; if order is NULL, first + b *
 * rows + k. The last batch may have fewer rows. Pending batches are dropped.
 */
void ring_start(
	struct ring *r, const uint32_t *order, size_t stride, uint32_t first, uint64_t images);

/*
 * Wait for the next batch, and take up to max that are ready: ret [max] gets their pixels
 * [rows][channels][height][width], valid until the next call of any function here.
 *
 * Returns their number, 0 after the last, or image_read()'s error for the first failed file of the
 * next batch; the error repeats until ring_start().
 */
int ring_take(struct ring *r, int max, const uint8_t **ret, struct mlr_error *err);

#endif
