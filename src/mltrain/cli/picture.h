/* Encodes images as PNG for records and reports. */
#ifndef MLT_PICTURE_H
#define MLT_PICTURE_H

#include <stdint.h>

/*
 * Make a PNG (base64, RFC 4648) of an image [channels][height][width], where channels are 1 or 3.
 * Returns text to free(), or NULL without libpng or memory.
 */
char *picture_png(const uint8_t *image, uint32_t channels, uint32_t height, uint32_t width);

#endif
