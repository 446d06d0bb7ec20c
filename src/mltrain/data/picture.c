#include "data/picture.h"

#include "config.h"
#include "data/loader.h"

#if HAVE_PNG

#include <png.h>

/* Convert planes to pixels. */
static uint8_t *interleave(const uint8_t *image, uint32_t channels, size_t plane)
{
	uint8_t *pixels = malloc(channels * plane);

	for (size_t i = 0; pixels && i < plane; i++)
		for (uint32_t c = 0; c < channels; c++)
			pixels[i * channels + c] = image[c * plane + i];
	return pixels;
}

int picture_encode(const struct image_size *size, const uint8_t *planes, uint8_t **ret, size_t *len)
{
	png_image png = { .version = PNG_IMAGE_VERSION,
		.width = size->width,
		.height = size->height,
		.format = size->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
	auto_free uint8_t *pixels =
		interleave(planes, size->channels, (size_t)size->height * size->width);
	png_alloc_size_t room = PNG_IMAGE_PNG_SIZE_MAX(png);
	auto_free uint8_t *file = malloc(room);

	if (!pixels || !file || !png_image_write_to_memory(&png, file, &room, 0, pixels, 0, NULL))
		return -1;
	*ret = take_ptr(&file);
	*len = room;
	return 0;
}

#else

int picture_encode(const struct image_size *size, const uint8_t *planes, uint8_t **ret, size_t *len)
{
	return -1;
}

#endif

int picture_png(const struct dataset *d, const struct image_set *set, uint32_t index, uint8_t **ret,
	size_t *len)
{
	const struct loader_options options = { .rows = 1, .ahead = 1, .threads = 1 };
	auto_call(loader_close) struct loader *loader = NULL;
	const struct image_size size = { d->channels, d->height, d->width };
	size_t bytes = (size_t)d->channels * d->height * d->width;
	struct batch batch;

	if ((d->channels != 1 && d->channels != 3) ||
		loader_open(set, d, &options, &loader, NULL) < 0)
		return -1;
	loader_start_range(loader, index, 1);
	if (loader_take(loader, 1, &batch, NULL) != 1)
		return -1;
	return picture_encode(
		&size, batch.images + (batch.index ? batch.index[0] * bytes : 0), ret, len);
}
