/*
 * The file that a squashfs image is written to, as a libsquashfs file. Keeps the errno of a
 * failure, for which libsquashfs says only "I/O error".
 */
#pragma once

#include "base/base.h"

#include <sqfs/io.h>

struct squashfs_file {
	sqfs_file_t base; /* must be first: libsquashfs has a pointer to it */
	int fd;           /* borrowed */
	sqfs_u64 at;      /* where the image begins in it */
	sqfs_u64 size;
	int error; /* errno of the first failure, or 0 */
};

void squashfs_file_init(struct squashfs_file *f, int fd);

/* Report an SQFS_ERROR that libsquashfs returned while doing something to f. Returns -errno. */
int squashfs_file_fail(
	const struct squashfs_file *f, int code, const char *doing, struct mlr_error *err);
