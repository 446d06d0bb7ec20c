/* Pictures to send: a folder's files, or the test images of a data set. */
#ifndef MLT_LOAD_PICTURES_H
#define MLT_LOAD_PICTURES_H

#include "data/image.h"

#define PICTURES_MAX       10000
#define PICTURES_BYTES_MAX ((size_t)256 << 20)

struct picture {
	uint8_t *file; /* PNG or JPEG [len], owned */
	size_t len;
	const char *type; /* "image/png", "image/jpeg" */
};

struct pictures {
	struct picture *v; /* [n], owned; at least one */
	size_t n;
	size_t max, bytes; /* how many to read; of all files */
};

void pictures_done(struct pictures *p);

/*
 * Read pictures, in the order of their names; the first that fit into the limits above.
 *
 *   max     at most so many, up to PICTURES_MAX
 *   where   a directory with files *.png, *.jpg and *.jpeg, or a data set as dataset_load() finds
 *           it, whose images become PNG
 *
 * Returns 0, or an error of dataset_load(), or -ENOTSUP without libpng.
 */
int pictures_read(const char *where, size_t max, struct pictures *ret, struct mlr_error *err);

/* The size and the bytes [channels][height][width], to free(), of a picture. An error of
 * image_read_bytes(), or -ENOMEM. */
int picture_decode(
	const struct picture *p, struct image_size *size, uint8_t **ret, struct mlr_error *err);

/*
 * Make a picture that differs from this one, and from those of other numbers, in the lowest bits of
 * some bytes: nobody sees it, but no cache has it. Pictures of fewer than 32 bytes are not enough
 * for all numbers.
 *
 * Returns 0 and a PNG, or an error of picture_decode().
 */
int picture_vary(
	const struct picture *p, uint32_t number, struct picture *ret, struct mlr_error *err);

#endif
