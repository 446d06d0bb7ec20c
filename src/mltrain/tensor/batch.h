/*
 * A batch of images as a backend takes it: the images' bytes, the indices of those in the batch,
 * and how each is augmented. A CPU reads the bytes in place; a GPU that holds the images
 * (engine_hold) gathers from its own copy.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define IMAGE_CHANNELS_MAX 4

/* How bytes enter a network: (byte - mean[c]) / scale[c]. */
struct image_norm {
	float mean[IMAGE_CHANNELS_MAX], scale[IMAGE_CHANNELS_MAX];
};

/*
 * How one image is augmented. First flip (left to right). Then shift: pixel (i, j) comes from
 * (i - down, j - right), and pixels from outside the image are a byte of 0. Then cutout (DeVries
 * and Taylor, 2017): the part inside the image of a square of side cut, with its upper left corner
 * at (cut_y, cut_x), enters the network as 0. All fields zero: the image is unchanged.
 */
struct augment {
	int8_t down, right;
	uint8_t flip;
	uint8_t cut;
	int16_t cut_y, cut_x;
};

/* The augmentation of training images. */
struct augment_policy {
	int shift; /* at most this many pixels each way, uniformly; 0: none; 127 at most */
	int flip;  /* nonzero: half of the images, left to right */
	int cut; /* side of the square that is cut out, its centre anywhere in the image; 0: none */
};

static inline int augment_is_none(const struct augment_policy *p)
{
	return !p->shift && !p->flip && !p->cut;
}

struct batch {
	int rows; /* images: the engine's batch when training, at most that when predicting */
	const uint8_t *images;         /* [..][c][h][w] */
	const uint32_t *index;         /* [rows] indices into images; NULL: the first rows */
	const struct augment *augment; /* [rows]; NULL: no augmentation */
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
