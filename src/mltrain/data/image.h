/*
 * Pictures: PNG and JPEG files, made into bytes of the size that a network wants. They come from
 * strangers: what is damaged, cut short or larger than the ceilings below is refused.
 *
 * PNG is read by libpng's simplified API, of any colour type and depth; what is transparent lies on
 * white; 16 bits become 8; a file that says so (gAMA) is brought to sRGB. JPEG is read by
 * libjpeg-turbo: grey, YCbCr, RGB, CMYK and YCCK, baseline and progressive, turned as its EXIF
 * orientation says (CIPA DC-008, tag 0x0112). Which of the two a file is, its first bytes tell.
 *
 * Colour becomes grey as 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601); grey becomes colour three
 * times over. The size is changed so that the image covers what is wanted, and cut in the middle:
 * when it shrinks, a pixel is the mean of the area that it covers, when it grows, it is
 * interpolated bilinearly. JPEGs that are much too large are decoded at a half, a quarter or an
 * eighth.
 */
#ifndef MLT_DATA_IMAGE_H
#define MLT_DATA_IMAGE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_FILE_MAX ((size_t)256 << 20) /* bytes of a file */
#define IMAGE_SIDE_MAX 32767               /* of a picture and of what is wanted */
#ifndef IMAGE_PIXELS_MAX
#define IMAGE_PIXELS_MAX ((size_t)1 << 26) /* of a picture: 192 MiB once decoded */
#endif
#define IMAGE_SCANS_MAX 100 /* of a progressive JPEG: each is a pass over all of it */

struct image_size {
	uint32_t channels, height, width; /* channels 1 or 3 */
};

/* What a file is: as it would be shown, turned, with 1 channel where it is grey. Fails as below. */
int image_probe(const char *path, struct image_size *ret, struct mlr_error *err);

/*
 * Read a file.
 *
 *   want   sides of at most IMAGE_SIDE_MAX
 *   ret    [channels][height][width]
 *
 * Returns 0, -EPROTO for what is damaged or neither PNG nor JPEG, -EFBIG above the ceilings,
 * -ENOTSUP when this program has no library for it (named), -EINVAL for what is no regular file,
 * -ENOENT and kin, -ENOMEM. Errors name the file. Any thread may call it.
 */
int image_read(
	const char *path, const struct image_size *want, uint8_t *ret, struct mlr_error *err);

/* The same of a file's bytes [len]; errors name no file. */
int image_probe_bytes(const void *bytes, size_t len, struct image_size *ret, struct mlr_error *err);
int image_read_bytes(const void *bytes, size_t len, const struct image_size *want, uint8_t *ret,
	struct mlr_error *err);

/* "+png -jpeg": which this program reads. */
const char *image_formats(void);

#endif
