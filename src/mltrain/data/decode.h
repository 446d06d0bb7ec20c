/* Decodes the files of a folder data set, several at once. */
#ifndef MLT_DATA_DECODE_H
#define MLT_DATA_DECODE_H

#include "data/folder.h"
#include "data/image.h"

/* Decode one file below dir, like image_read(). */
int decode_file(const char *dir, const struct image_file *file, const struct image_size *size,
	uint8_t *ret, struct mlr_error *err);

/*
 * Decode files [count] with up to `threads` threads, including the caller's.
 *
 *   ret   [count][channels][height][width]
 *
 * Returns 0 or image_read()'s error for the first file that fails.
 */
int decode_files(const char *dir, const struct image_file *files, uint32_t count,
	const struct image_size *size, int threads, uint8_t *ret, struct mlr_error *err);

static inline size_t image_size_bytes(const struct image_size *s)
{
	return (size_t)s->channels * s->height * s->width;
}

#endif
