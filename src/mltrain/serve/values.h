/* Reads images out of what clients send: numbers in JSON, pictures, base64 (RFC 4648). */
#ifndef MLT_SERVE_VALUES_H
#define MLT_SERVE_VALUES_H

#include "serve/models.h"

#include <jansson.h>

#define SERVE_PICTURE_PIXELS ((size_t)1 << 24) /* of a picture: 48 MiB once decoded */

/*
 * Read one image.
 *
 *   v    numbers, whole and from 0 to 255: flat, [channels][height][width], [height][width] of one
 *        channel, or [height][width][channels] as TensorFlow has it; a PNG or JPEG in base64, as a
 *        string or as {"b64": string}
 *   to   [model->pixels]
 *
 * Returns 0, or -EINVAL, -EFBIG for a picture of more than SERVE_PICTURE_PIXELS, -ENOTSUP for a
 * format that this program was built without.
 */
int serve_values_image(
	const json_t *v, const struct serve_model *model, uint8_t *to, struct mlr_error *err);

/* Read a PNG's or JPEG's bytes; scales them as mltrain predict does. */
int serve_values_picture(const void *bytes, size_t len, const struct serve_model *model,
	uint8_t *to, struct mlr_error *err);

/* Read so many numbers, in order, however they are nested. Returns 0 or -EINVAL. */
int serve_values_flat(const json_t *v, size_t count, uint8_t *to, struct mlr_error *err);

/* Set *to to a number, if it is whole and from 0 to 255. Returns 0 or -EINVAL. */
int serve_values_byte(double v, uint8_t *to, struct mlr_error *err);

#endif
