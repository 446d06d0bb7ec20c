/*
 * Reads PNG and JPEG pictures as bytes of the size that a network wants. Files are untrusted:
 * damaged, truncated or too large ones are refused.
 *
 * libpng's simplified API reads PNG of any colour type and depth: transparency lies on white, 16
 * bits become 8, and gAMA is converted to sRGB. libjpeg-turbo reads JPEG: grey, YCbCr, RGB, CMYK
 * and YCCK, baseline and progressive, turned by its EXIF orientation (CIPA DC-008, tag 0x0112). A
 * file's first bytes tell which of the two it is.
 *
 * Colour becomes grey as 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601); grey becomes three equal
 * channels. The image is scaled to cover the wanted size and cropped around its centre. Shrinking
 * takes the mean of the area that a pixel covers; growing interpolates bilinearly. JPEGs that are
 * much too large are decoded at a half, a quarter or an eighth.
 */
#pragma once

#include "base/base.h"

#define IMAGE_FILE_MAX ((size_t)256 << 20) /* bytes of a file */
#define IMAGE_SIDE_MAX 32767               /* of a picture and of what is wanted */
#ifndef IMAGE_PIXELS_MAX
#define IMAGE_PIXELS_MAX ((size_t)1 << 26) /* of a picture: 192 MiB once decoded */
#endif
#define IMAGE_SCANS_MAX 100 /* of a progressive JPEG: each is a pass over all of it */

struct image_size {
	uint32_t channels, height, width; /* channels 1 or 3 */
};

/* Read the size of a file as it would be shown: turned, with 1 channel if grey. Fails like
 * image_read(). */
int image_probe(const char *path, struct image_size *ret, struct mlr_error *err);

/*
 * Read a picture.
 *
 *   want   sides of at most IMAGE_SIDE_MAX
 *   ret    [channels][height][width]
 *
 * Returns 0, -EPROTO if it is damaged or neither PNG nor JPEG, -EFBIG above the limits, -ENOTSUP if
 * this program has no library for it (named), -EINVAL if it is not a regular file, -ENOENT and kin,
 * -ENOMEM. Errors name the file. Thread-safe.
 */
int image_read(
	const char *path, const struct image_size *want, uint8_t *ret, struct mlr_error *err);

/* Read a picture from a file's bytes [len]. Errors name no file. */
int image_probe_bytes(const void *bytes, size_t len, struct image_size *ret, struct mlr_error *err);
int image_read_bytes(const void *bytes, size_t len, const struct image_size *want, uint8_t *ret,
	struct mlr_error *err);

/* Return which formats this program reads: "+png -jpeg". */
const char *image_formats(void);
