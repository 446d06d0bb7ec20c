/* Reads images out of what clients send: numbers in JSON, pictures, base64 (RFC 4648). */
#ifndef MLT_SERVE_VALUES_H
#define MLT_SERVE_VALUES_H

#include "serve/ask.h"

#include <jansson.h>

/* Pixels of all pictures of a request: 48 MiB once decoded, and some 40 ms of the thread that
 * reads. */
#define SERVE_PICTURE_PIXELS ((size_t)1 << 24)

/*
 * Read one image.
 *
 *   v    numbers, whole and from 0 to 255: flat, [channels][height][width], [height][width] of one
 *        channel, or [height][width][channels] as TensorFlow has it; a PNG or JPEG in base64, as a
 *        string or as {"b64": string}
 *   to   [ask->model->pixels]
 *
 * Returns 0, or -EINVAL, -EFBIG when the request's pictures so far have more than
 * SERVE_PICTURE_PIXELS, -ENOTSUP for a format that this program was built without.
 */
int serve_values_image(const json_t *v, struct serve_ask *ask, uint8_t *to, struct mlr_error *err);

/* Read a PNG's or JPEG's bytes; scales them as mltrain predict does. */
int serve_values_picture(
	const void *bytes, size_t len, struct serve_ask *ask, uint8_t *to, struct mlr_error *err);

/* Read so many numbers, in order, however they are nested. Returns 0 or -EINVAL. */
int serve_values_flat(const json_t *v, size_t count, uint8_t *to, struct mlr_error *err);

/* Set *to to a number, if it is whole and from 0 to 255. Returns 0 or -EINVAL. */
int serve_values_byte(double v, uint8_t *to, struct mlr_error *err);

#endif
