/*
 * Prepares the batches of a data set while the engine computes earlier ones.
 *
 * If the images are in memory, a batch refers to them by index, and only labels are copied. If they
 * are files (dataset.h), threads of the loader decode them ahead into a ring of batches.
 */
#pragma once

#include "data/dataset.h"

/* How to go on after a picture that cannot be read. */
#define LOADER_HINT "take the file away, or rename it to begin with a dot: then it is skipped"

struct loader;

struct loader_options {
	int rows;    /* images of a batch on this rank, > 0 */
	int ahead;   /* batches kept ready, at least as many as one loader_take() asks for, > 0 */
	int threads; /* decoding threads, > 0 */
};

/*
 * The set is borrowed for the loader's life. Returns 0, -ENOMEM with the bytes, or -EAGAIN if a
 * thread cannot start.
 */
int loader_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct loader **ret, struct mlr_error *err);
void loader_close(struct loader **l);

/*
 * Start anew: batch i of n gets the images order[i * stride .. + rows - 1]. Pending batches are
 * dropped.
 *
 *   order     indices of the set's images, borrowed until the next start or loader_close()
 *   augment   alterations, indexed like order; borrowed likewise; NULL: none
 *   stride    rows times the number of ranks; order points at this rank's first row
 *   n         batches
 */
void loader_start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint64_t n);

/*
 * Start anew for predicting: the set's images first .. first + count - 1 in their order, unaltered.
 * The last batch may have fewer rows.
 */
void loader_start_range(struct loader *l, uint32_t first, uint32_t count);

/*
 * Take up to max batches (at most options.ahead), waiting for the first. They are valid until the
 * next call of a function of this header.
 *
 * A batch of a set in memory has images = set->images and an index, so that an engine recognises
 * the images that it holds. A batch of files has its own images and no index. Both have labels.
 *
 * Returns their number, 0 after the last, -EPROTO for an image that cannot be decoded (naming its
 * file), -EIO and kin.
 */
int loader_take(struct loader *l, int max, struct batch *ret, struct mlr_error *err);

/* --- augment.c: alterations of training images, against overfitting --- */

#define AUGMENT_SHIFT_MAX 127
#define AUGMENT_CUT_MAX   255
#define AUGMENT_SIDE_MAX  32767 /* of an image: places in it are 16 bits */

/*
 * Draw the alterations of the places first..first+n-1 of an epoch's order, into ret [n]. Images are
 * h x w, at most AUGMENT_SIDE_MAX each; the policy's numbers are within the ceilings above.
 */
void augment_draw(const struct augment_policy *p, uint64_t seed, uint64_t epoch, uint64_t first,
	int n, int h, int w, struct augment *ret);
