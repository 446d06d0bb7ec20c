#include "cli/picture.h"

#include "config.h"

#if HAVE_PNG

#include "base/cleanup.h"

#include <png.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static char *base64(const uint8_t *bytes, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;

	for (size_t i = 0; text && i < n; i += 3) {
		uint32_t v = (uint32_t)bytes[i] << 16 |
			(uint32_t)(i + 1 < n ? bytes[i + 1] : 0) << 8 |
			(uint32_t)(i + 2 < n ? bytes[i + 2] : 0);

		*to++ = digits[v >> 18];
		*to++ = digits[v >> 12 & 63];
		*to++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*to++ = i + 2 < n ? digits[v & 63] : '=';
	}
	if (text)
		*to = '\0';
	return text;
}

/* Convert planes to pixels. */
static uint8_t *interleave(const uint8_t *image, uint32_t channels, size_t plane)
{
	uint8_t *pixels = malloc(channels * plane);

	for (size_t i = 0; pixels && i < plane; i++)
		for (uint32_t c = 0; c < channels; c++)
			pixels[i * channels + c] = image[c * plane + i];
	return pixels;
}

char *picture_png(const uint8_t *image, uint32_t channels, uint32_t height, uint32_t width)
{
	png_image png = { .version = PNG_IMAGE_VERSION,
		.width = width,
		.height = height,
		.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
	auto_free uint8_t *pixels = interleave(image, channels, (size_t)height * width);
	png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
	auto_free uint8_t *file = malloc(size);

	if (!pixels || !file || (channels != 1 && channels != 3) ||
		!png_image_write_to_memory(&png, file, &size, 0, pixels, 0, NULL))
		return NULL;
	return base64(file, size);
}

#else

#include <stddef.h>

char *picture_png(const uint8_t *image, uint32_t channels, uint32_t height, uint32_t width)
{
	(void)image;
	(void)channels;
	(void)height;
	(void)width;
	return NULL;
}

#endif
