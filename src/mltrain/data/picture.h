/* Encodes images as PNG, for records, reports, TensorBoard and requests. */
#pragma once

#include "data/dataset.h"
#include "data/image.h"

/*
 * Make a PNG of planes [channels][height][width], 1 or 3 of them.
 *
 *   ret, len   a buffer to free()
 *
 * Returns 0, or -1 without libpng or memory.
 */
int picture_encode(
	const struct image_size *size, const uint8_t *planes, uint8_t **ret, size_t *len);

/*
 * Make a PNG of one image of a set, which has 1 or 3 channels.
 *
 *   set        one of d's
 *   ret, len   a buffer to free()
 *
 * Returns 0, or -1 for another number of channels, an image that can't be read, or without libpng
 * or memory.
 */
int picture_png(const struct dataset *d, const struct image_set *set, uint32_t index, uint8_t **ret,
	size_t *len);
