/* Reads a file without its compression (gzip, zstd, xz, bzip2). For this room's other files. */
#pragma once

#include "base/base.h"

/* Limit of the decompressed bytes, as in struct layer_limits (layer/unpack.h). */
#define PLAIN_BYTES_MAX (1ull << 40)

struct plain_options {
	int tmp_fd; /* a directory for the unnamed temporary file; -1: $TMPDIR, else /tmp */
	int (*cancelled)(void *ctx); /* may be NULL */
	void *cancelled_ctx;
};

/* Is this the start of a compressed file? 1 or 0. buf holds its first len bytes. */
int plain_is_compressed(const void *buf, size_t len);

/*
 * Get a descriptor of the decompressed bytes: a duplicate of fd if it is an uncompressed regular
 * file, else an unnamed temporary file. fd may be a pipe.
 *
 * Returns the descriptor, or -EBADMSG for a damaged stream, -EFBIG for a decompression bomb,
 * -ENOSPC, -ECANCELED.
 */
int plain_open(int fd, const struct plain_options *opt, struct mlr_error *err);

/* Receives decompressed bytes. Returns 0, or -errno with err set to end the stream. */
typedef int (*plain_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/* Decompress `size` bytes of fd from offset on into a sink. Does not use the descriptor's own
 * position, so it is thread-safe. Errors as above, and the sink's. */
int plain_stream(int fd, uint64_t offset, uint64_t size, const struct plain_options *opt,
	plain_sink_fn sink, void *ctx, struct mlr_error *err);
