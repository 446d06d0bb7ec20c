/*
 * Alters training images at random (shift, flip, cutout) against overfitting. The seed, the epoch
 * and the image's place in that epoch's order decide what happens to an image, so the result does
 * not depend on the number of ranks or the backend.
 *
 * The numbers are Philox's (tensor/philox.h), one block of four words an image:
 *
 *   key       the seed
 *   counter   { place, 0xa0000000 + (place >> 32), epoch, epoch >> 32 }, the low 32 bits of each
 *   words     rows down, columns right, the cut's row, the cut's column; the last one's lowest bit
 *             says whether the image is flipped
 *
 * Dropout counts layers in the second word and never gets that far, so the two never draw the same
 * block. A word w gives the number (w * n) >> 32 below n. Turning one kind of alteration on or off
 * does not change what is drawn for another.
 */
#ifndef MLT_DATA_AUGMENT_H
#define MLT_DATA_AUGMENT_H

#include "base/base.h"
#include "tensor/batch.h"

#define AUGMENT_SHIFT_MAX 127
#define AUGMENT_CUT_MAX   255
#define AUGMENT_SIDE_MAX  32767 /* of an image: places in it are 16 bits */

/*
 * Draw the alterations of the places first..first+n-1 of an epoch's order, into ret [n]. Images are
 * h x w, at most AUGMENT_SIDE_MAX each; the policy's numbers are within the ceilings above.
 */
void augment_draw(const struct augment_policy *p, uint64_t seed, uint64_t epoch, uint64_t first,
	int n, int h, int w, struct augment *ret);

#endif
