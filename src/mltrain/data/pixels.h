/*
 * A decoded picture, and what is done with it on its way to a network. For image.c and the
 * decoders.
 */
#ifndef MLT_DATA_PIXELS_H
#define MLT_DATA_PIXELS_H

#include "base/error.h"
#include "data/image.h"

struct pixels {
	struct image_size size; /* as they lie, not yet turned */
	int orientation;        /* 1..8, EXIF's; 1: as it lies */
	uint8_t *data;          /* [height][width][channels], owned */
};

#define PIXELS_INIT                  \
	{                            \
		{ 0, 0, 0 }, 1, NULL \
	}

void pixels_done(struct pixels *p);

/* Does an orientation exchange height and width? */
static inline int pixels_lie_across(int orientation)
{
	return orientation >= 5;
}

/* Refuse sides and areas above image.h's ceilings, and none. Returns 0, -EFBIG or -EPROTO. */
int pixels_check(uint64_t height, uint64_t width, struct mlr_error *err);

/*
 * Decode bytes, which begin as such a file does. With want NULL only size and orientation are found
 * out; else data is at least as large as want, turned back, in both directions, where the picture
 * is.
 */
int pixels_read_png(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err);
int pixels_read_jpeg(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err);

/*
 * Scale to cover height x width and cut in the middle, channels as they are.
 *
 *   ret   overwritten; its orientation is p's
 */
int pixels_fit(const struct pixels *p, uint32_t height, uint32_t width, struct pixels *ret,
	struct mlr_error *err);

/* Turn as the orientation says, into planes, grey or colour as wanted: want has p's size,
 * turned. */
void pixels_to_planes(const struct pixels *p, const struct image_size *want, uint8_t *ret);

#endif
