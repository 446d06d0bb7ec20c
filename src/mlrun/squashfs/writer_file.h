/*
 * The file that a squashfs image is written to, as libsquashfs wants to see one. The errno of what
 * failed is kept: libsquashfs itself knows but "I/O error".
 */
#ifndef MLR_SQUASHFS_WRITER_FILE_H
#define MLR_SQUASHFS_WRITER_FILE_H

#include "base/error.h"

#include <sqfs/io.h>

struct squashfs_file {
	sqfs_file_t base; /* first: libsquashfs knows it by this */
	int fd;           /* borrowed */
	sqfs_u64 size;
	int error; /* errno of the first failure, or 0 */
};

void squashfs_file_init(struct squashfs_file *f, int fd);

/* Tell what libsquashfs failed with, an SQFS_ERROR, while doing something to f. Returns -errno. */
int squashfs_file_fail(
	const struct squashfs_file *f, int code, const char *doing, struct mlr_error *err);

#endif
