/* Reads a picture's orientation from EXIF (CIPA DC-008; TIFF 6.0 for the format). */
#ifndef MLT_DATA_EXIF_H
#define MLT_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Return the orientation, 1..8, in the bytes of an APP1 segment; 1 if it has none. */
int exif_orientation(const uint8_t *segment, size_t len);

#endif
