/*
 * data: data sets. Reads files made by strangers; knows no network.
 *
 * This header: one IDX file, the format of the MNIST database (yann.lecun.com/exdb/mnist, "The IDX
 * file format"): two zero bytes, a type byte (0x08, unsigned byte, is the only one in use), the
 * number of dimensions, each dimension as a big-endian 32-bit number, then the data, row-major.
 * Plain or compressed by gzip; which one is seen from the bytes.
 */
#ifndef MLT_DATA_IDX_H
#define MLT_DATA_IDX_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define IDX_RANK_MAX 4
#define IDX_BYTES_MAX \
	((size_t)4 << 30) /* ceiling of one file's data: what is said to be larger is refused */

struct idx {
	int rank;
	uint32_t dim[IDX_RANK_MAX]; /* all positive */
	size_t count;               /* the product of the dimensions = bytes in data */
	uint8_t *data;              /* owned */
};

#define IDX_INIT                  \
	{                         \
		0, { 0 }, 0, NULL \
	}

/*
 * Read an IDX file whole.
 *
 *   rank   the number of dimensions it must have: 1 for labels, 3 for images
 *
 * Memory grows with what the file really holds, so a header that lies about its size costs nothing.
 * Returns 0, or -ENOENT and kin, -EINVAL for what is no regular file, -EPROTO for what is not an
 * IDX file of that rank, is truncated, is larger than its header says or is damaged gzip, -EFBIG
 * above IDX_BYTES_MAX, -ENOMEM. Errors name the file. On success ret is overwritten; on failure it
 * is left alone.
 */
int idx_read(const char *path, int rank, struct idx *ret, struct mlr_error *err);

/* The same from an open descriptor, which is read to its end and stays the caller's; path is for
 * errors. */
int idx_read_fd(int fd, const char *path, int rank, struct idx *ret, struct mlr_error *err);

/* Free the data; a zeroed struct is fine. */
void idx_done(struct idx *x);

#endif
