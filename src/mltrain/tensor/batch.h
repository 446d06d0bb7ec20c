/*
 * A batch of images as a backend takes it: bytes where they lie, which of them, and how each is
 * altered on the way in. A CPU reads them in place; a GPU that was told to hold the images
 * (engine_hold) gathers from its own copy.
 */
#ifndef MLT_TENSOR_BATCH_H
#define MLT_TENSOR_BATCH_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_CHANNELS_MAX 4

/* How bytes enter a network: (byte - mean[c]) / scale[c]. */
struct image_norm {
	float mean[IMAGE_CHANNELS_MAX], scale[IMAGE_CHANNELS_MAX];
};

/*
 * How one image is altered. First flip (left to right), then shift: pixel (i, j) is that of
 * (i - down, j - right), and what comes from outside is a byte of 0. Then cutout (DeVries and
 * Taylor, 2017): the square of side cut whose upper left corner is (cut_y, cut_x), as far as it
 * lies within the image, enters the network as 0. All zero: as it is.
 */
struct augment {
	int8_t down, right;
	uint8_t flip;
	uint8_t cut;
	int16_t cut_y, cut_x;
};

/* What may happen to training images. */
struct augment_policy {
	int shift; /* up to so many pixels each way, uniformly; 0: none; at most 127 */
	int flip;  /* not 0: every second image, left to right */
	int cut; /* side of the square that is cut out, its centre anywhere in the image; 0: none */
};

static inline int augment_is_none(const struct augment_policy *p)
{
	return !p->shift && !p->flip && !p->cut;
}

struct batch {
	int rows; /* images: an engine's batch when training, up to it when predicting */
	const uint8_t *images;         /* [..][c][h][w] */
	const uint32_t *index;         /* [rows] which of them; NULL: the first rows */
	const struct augment *augment; /* [rows]; NULL: none is altered */
	const uint16_t
		*labels; /* [rows], each below the number of classes; not read when predicting */
};

/*
 * Write a batch's rows from..to-1 into x [rows][c][h][w].
 *
 *   norm   of c channels
 */
void batch_gather(const struct batch *b, int c, int h, int w, const struct image_norm *norm,
	int from, int to, float *x);

#endif
