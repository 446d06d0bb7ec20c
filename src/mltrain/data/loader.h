/*
 * Batches of a data set, one after the other, made ready while others are computed with.
 *
 * A set whose images are in memory is handed out in place: a batch names bytes and places, and
 * nothing but labels is copied. A set that is read from files as it is needed (dataset.h) is
 * decoded ahead by threads of the loader's own into a ring of batches (ring.h).
 */
#ifndef MLT_DATA_LOADER_H
#define MLT_DATA_LOADER_H

#include "base/error.h"
#include "data/augment.h"
#include "data/dataset.h"

struct loader;

struct loader_options {
	int rows;    /* images a batch, on this rank, > 0 */
	int ahead;   /* batches kept ready, at least as many as are asked for at once, > 0 */
	int threads; /* that decode, where there is something to decode, > 0 */
};

/*
 * The set is borrowed for the loader's life. Returns 0, -ENOMEM with the bytes, or -EAGAIN when a
 * thread can't be started.
 */
int loader_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct loader **ret, struct mlr_error *err);
void loader_close(struct loader **l);

/*
 * What comes next: batch i of n has the images order[i * stride .. + rows - 1]. What was under way
 * is dropped.
 *
 *   order     places in the set, borrowed until the next start or loader_close()
 *   augment   alterations, in order's places; borrowed likewise; NULL: none
 *   stride    rows times the number of ranks: order is then this rank's first row
 *   n         batches
 */
void loader_start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint64_t n);

/*
 * The same for predicting: the set's images first .. first + count - 1 as they lie, unaltered; the
 * last batch has fewer rows where count is no multiple.
 */
void loader_start_range(struct loader *l, uint32_t first, uint32_t count);

/*
 * Take up to max batches (at most options.ahead), waiting for the first. They stay valid until the
 * next call of any function of this header.
 *
 * A batch of a set in memory has images = set->images and an index, so that an engine finds what it
 * was told to hold; one of files has its own images and no index. Labels are there in both.
 *
 * Returns how many, 0 after the last, -EPROTO for an image that can't be decoded (its file is
 * named), -EIO and kin.
 */
int loader_take(struct loader *l, int max, struct batch *ret, struct mlr_error *err);

#endif
