/*
 * Reads PNG with libpng's simplified API, which has its own setjmp(3). It cannot set limits, and
 * libpng's defaults (1000 texts that inflate to 8 MB each) let a file of 7 MB take 7 GB of memory.
 * So libpng gets only chunks that affect colours, and the size is checked before a pixel is read.
 */
#include "data/pixels.h"

#include <png.h>

/* PNG, 5.3 "Chunk layout": length, type, data, CRC; 5.4: the names of critical chunks
 * begin with a capital letter. */
#define SIGNATURE 8
#define AROUND    12

static int is_wanted(const uint8_t type[4])
{
	static const char wanted[][5] = { "tRNS", "gAMA", "cHRM", "sRGB", "iCCP", "sBIT" };

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (memcmp(type, wanted[i], 4) == 0)
			return 1;
	return !(type[0] & 0x20);
}

/* Copy the wanted chunks, and unchanged what is not a chunk. Returns the number of bytes. */
static size_t keep_wanted(const uint8_t *from, size_t len, uint8_t *to)
{
	size_t at = SIGNATURE, n = SIGNATURE;

	memcpy(to, from, SIGNATURE);
	while (len - at >= AROUND) {
		const uint8_t *p = from + at;
		size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];

		if (size > len - at - AROUND)
			break;
		size += AROUND;
		if (is_wanted(p + 4)) {
			memcpy(to + n, p, size);
			n += size;
		}
		at += size;
	}
	memcpy(to + n, from + at, len - at);
	return n + len - at;
}

static void png_done(png_image *image)
{
	png_image_free(image);
}

int pixels_read_png(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err)
{
	static const png_color white = { 255, 255, 255 };
	auto_call(png_done) png_image image = { .version = PNG_IMAGE_VERSION };
	auto_free uint8_t *data = NULL, *kept = malloc(len);

	if (!kept)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for an image", len);
	if (!png_image_begin_read_from_memory(&image, kept, keep_wanted(bytes, len, kept)))
		return mlr_fail(err, EPROTO, "damaged PNG: %s", image.message);
	TRY(pixels_check(image.height, image.width, err));
	image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
	image.format = image.format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
	if (want) {
		data = malloc(PNG_IMAGE_SIZE(image));
		if (!data)
			return mlr_fail(err, ENOMEM, "%zu bytes of memory for an image",
				(size_t)PNG_IMAGE_SIZE(image));
		if (!png_image_finish_read(&image, &white, data, 0, NULL))
			return mlr_fail(err, EPROTO, "damaged PNG: %s", image.message);
	}
	ret->size = (struct image_size){ PNG_IMAGE_SAMPLE_CHANNELS(image.format), image.height,
		image.width };
	ret->orientation = 1;
	ret->data = take_ptr(&data);
	return 0;
}
