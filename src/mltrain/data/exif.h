/*
 * What EXIF says of how a picture is to be held (CIPA DC-008; TIFF 6.0 for its form).
 */
#ifndef MLT_DATA_EXIF_H
#define MLT_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation, 1..8, that the bytes of an APP1 segment tell; 1 when they tell none. */
int exif_orientation(const uint8_t *segment, size_t len);

#endif
