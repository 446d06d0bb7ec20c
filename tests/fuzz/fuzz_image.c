/*
 * Fuzz target: a picture, probed, and read larger, smaller, grey and coloured. Ceilings are low
 * here, so that a header cannot make a run slow.
 */
#include "data/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_as(const uint8_t *data, size_t size, uint32_t channels, uint32_t h, uint32_t w)
{
	const struct image_size want = { channels, h, w };
	struct mlr_error err = MLR_ERROR_INIT;
	uint8_t *ret = malloc((size_t)channels * h * w); /* the sanitizer sees its end */
	int r = image_read_bytes(data, size, &want, ret, &err);

	free(ret);
	if (r < 0 && !err.text[0])
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct image_size got;
	int r = image_probe_bytes(data, size, &got, &err);

	if (r == 0 &&
		((got.channels != 1 && got.channels != 3) || !got.height || !got.width ||
			(size_t)got.height * got.width > IMAGE_PIXELS_MAX))
		abort();
	if (r < 0 && !err.text[0])
		abort();
	if (read_as(data, size, 3, 7, 5) == 0 && r < 0)
		abort(); /* what can be read can be probed */
	read_as(data, size, 1, 1, 3);
	read_as(data, size, 3, 40, 33);
	return 0;
}
