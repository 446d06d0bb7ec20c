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
#include "data/loader.h"

#include "tensor/philox.h"

#include <assert.h>

#define PURPOSE 0xa0000000u

static int below(uint32_t word, int n)
{
	return (int)((uint64_t)word * (uint64_t)n >> 32);
}

void augment_draw(const struct augment_policy *p, uint64_t seed, uint64_t epoch, uint64_t first,
	int n, int h, int w, struct augment *ret)
{
	assert(p->shift >= 0 && p->shift <= AUGMENT_SHIFT_MAX);
	assert(p->cut >= 0 && p->cut <= AUGMENT_CUT_MAX);
	assert(h > 0 && h <= AUGMENT_SIDE_MAX && w > 0 && w <= AUGMENT_SIDE_MAX);

	memset(ret, 0, (size_t)n * sizeof(*ret)); /* the padding too: batch_gather() compares it */
	for (int i = 0; i < n; i++) {
		uint64_t place = first + (uint64_t)i;
		const struct philox at = { { (uint32_t)place, PURPOSE + (uint32_t)(place >> 32),
			(uint32_t)epoch, (uint32_t)(epoch >> 32) } };
		struct philox r = philox(at, (uint32_t)seed, (uint32_t)(seed >> 32));
		struct augment *a = &ret[i];

		if (p->shift) {
			a->down = (int8_t)(below(r.word[0], 2 * p->shift + 1) - p->shift);
			a->right = (int8_t)(below(r.word[1], 2 * p->shift + 1) - p->shift);
		}
		if (p->flip)
			a->flip = r.word[3] & 1;
		if (p->cut) {
			a->cut = (uint8_t)p->cut;
			a->cut_y = (int16_t)(below(r.word[2], h) - p->cut / 2);
			a->cut_x = (int16_t)(below(r.word[3], w) - p->cut / 2);
		}
	}
}
