/*
 * data: reads data sets, which are untrusted files; knows no network.
 *
 * This header: reads one IDX file, the format of the MNIST database (yann.lecun.com/exdb/mnist,
 * "The IDX file format"): two zero bytes, a type byte (0x08, unsigned byte, is the only one in
 * use), the number of dimensions, each dimension as a big-endian 32-bit number, then the data,
 * row-major. The bytes tell whether it is compressed by gzip.
 */
#pragma once

#include "base/base.h"

#define IDX_RANK_MAX  4
#define IDX_BYTES_MAX ((size_t)4 << 30) /* limit of one file's data */

struct idx {
	int rank;
	uint32_t dim[IDX_RANK_MAX]; /* all positive */
	size_t count;               /* the product of the dimensions = bytes in data */
	uint8_t *data;              /* owned */
};

/*
 * Read a whole IDX file.
 *
 *   rank   the number of dimensions it must have: 1 for labels, 3 for images
 *
 * Memory grows with the bytes read, so a header that lies about its size costs nothing.
 * Returns 0, or -ENOENT and kin, -EINVAL if it is not a regular file, -EPROTO if it is not an IDX
 * file of that rank, is truncated, longer than its header says or damaged gzip, -EFBIG above
 * IDX_BYTES_MAX, -ENOMEM. Errors name the file. A failure leaves ret unchanged.
 */
int idx_read(const char *path, int rank, struct idx *ret, struct mlr_error *err);

/* Read from an open descriptor up to its end. It stays the caller's; path is for errors. */
int idx_read_fd(int fd, const char *path, int rank, struct idx *ret, struct mlr_error *err);

/* Free the data. The struct may be all zero. */
void idx_done(struct idx *x);
