/* Scales, crops and turns a decoded picture. For image.c and the decoders. */
#pragma once

#include "data/image.h"

struct pixels {
	struct image_size size; /* as stored, not turned */
	int orientation;        /* EXIF's, 1..8; 1: as stored */
	uint8_t *data;          /* [height][width][channels], owned */
};

#define PIXELS_INIT                  \
	{                            \
		{ 0, 0, 0 }, 1, NULL \
	}

void pixels_done(struct pixels *p);

/* Return the orientation, 1..8, in the bytes of an APP1 segment of EXIF; 1 if it has none. */
int pixels_orientation(const uint8_t *segment, size_t len);

/* Does an orientation exchange height and width? */
static inline int pixels_lie_across(int orientation)
{
	return orientation >= 5;
}

/* Check sides and area against image.h's limits. Returns 0, -EFBIG, or -EPROTO for an empty image.
 */
int pixels_check(uint64_t height, uint64_t width, struct mlr_error *err);

/*
 * Decode bytes that begin like such a file. If want is NULL, read only size and orientation.
 * Otherwise data may be smaller than the picture, but both sides are at least those of want, turned
 * back.
 */
int pixels_read_png(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err);
int pixels_read_jpeg(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err);

/*
 * Scale to cover height x width, then crop around the centre. Channels stay.
 *
 *   ret   overwritten; gets p's orientation
 */
int pixels_fit(const struct pixels *p, uint32_t height, uint32_t width, struct pixels *ret,
	struct mlr_error *err);

/* Turn by the orientation and convert to planes, grey or colour. want has p's size, turned. */
void pixels_to_planes(const struct pixels *p, const struct image_size *want, uint8_t *ret);
