/*
 * A file's bytes without their compression (gzip, zstd, xz, bzip2), for random access. For this
 * room's other files.
 */
#ifndef MLR_PULL_PLAIN_H
#define MLR_PULL_PLAIN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* What may come out: that of struct layer_limits (layer/unpack.h). */
#define PLAIN_BYTES_MAX (1ull << 40)

struct plain_options {
	int tmp_fd; /* a directory for the unnamed temporary file; -1: $TMPDIR, else /tmp */
	int (*cancelled)(void *ctx); /* may be NULL */
	void *cancelled_ctx;
};

/*
 * Where a compressed file begins, is it one? 1 or 0. buf holds its first len bytes.
 */
int plain_is_compressed(const void *buf, size_t len);

/*
 * A descriptor of the plain bytes: fd itself duplicated when it is a regular file that is not
 * compressed; else a file without a name that holds them and goes with its descriptor. fd may be a
 * pipe.
 *
 * Returns the descriptor, or -EBADMSG for a damaged stream, -EFBIG for a bomb, -ENOSPC, -ECANCELED.
 */
int plain_open(int fd, const struct plain_options *opt, struct mlr_error *err);

/* Takes plain bytes. Returns 0, or -errno with err set to end it. */
typedef int (*plain_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/* Read `size` bytes of fd from offset on and hand them out without their compression. Leaves the
 * descriptor's own position alone: any thread. Errors as above, and the sink's. */
int plain_stream(int fd, uint64_t offset, uint64_t size, const struct plain_options *opt,
	plain_sink_fn sink, void *ctx, struct mlr_error *err);

#endif
