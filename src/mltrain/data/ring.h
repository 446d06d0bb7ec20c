/*
 * Pictures of a set that is too large for memory, decoded ahead by threads into a ring of batches.
 * For loader.c.
 */
#ifndef MLT_DATA_RING_H
#define MLT_DATA_RING_H

#include "base/error.h"
#include "data/decode.h"

struct ring;

struct ring_options {
	const char *dir;
	const struct image_file *files; /* borrowed for the ring's life, as is dir */
	struct image_size size;
	int rows;    /* images a batch */
	int ahead;   /* batches that may be taken at once; as many are decoded meanwhile */
	int threads; /* that decode */
};

/* Returns 0, -ENOMEM with the bytes, or -EAGAIN when no thread can be started. */
int ring_open(const struct ring_options *o, struct ring **ret, struct mlr_error *err);
void ring_close(struct ring **r);

/*
 * Row k of batch b is the file order[b * stride + k], or first + b * rows + k where order is NULL.
 * Images in all; the last batch may have fewer rows. What was under way is dropped.
 */
void ring_start(
	struct ring *r, const uint32_t *order, size_t stride, uint32_t first, uint64_t images);

/*
 * Wait for the next batch, and take up to max that are ready: ret [max] gets their pixels
 * [rows][channels][height][width], valid until the next call of any function here.
 *
 * Returns how many, 0 after the last, or what image_read() gives for the first file of the next
 * batch that it fails for; then again until ring_start().
 */
int ring_take(struct ring *r, int max, const uint8_t **ret, struct mlr_error *err);

#endif
