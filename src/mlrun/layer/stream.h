/*
 * A layer's tar as a stream. One thread reads and inflates into a few buffers, another one hashes
 * them, and the caller uses them at the same time. The buffers take about 5 MiB.
 */
#pragma once

#include "layer/unpack.h"

struct layer_stream;

/* Start reading. Returns 0, -EAGAIN if no thread can be started, -ENOMEM. */
int layer_stream_open(layer_read_fn read, void *ctx, enum oci_compression comp,
	const struct layer_limits *limits, struct layer_stream **ret, struct mlr_error *err);

/*
 * Get the next part of the tar; *buf is valid until the next call.
 *
 * Returns its length, 0 at the end, or the error of reading, inflating or a limit.
 */
ssize_t layer_stream_next(struct layer_stream *s, const void **buf, struct mlr_error *err);

/* Bytes returned so far. */
uint64_t layer_stream_bytes(const struct layer_stream *s);

/* The sha256 of all bytes returned; call it once, after the end. */
void layer_stream_digest(struct layer_stream *s, char hex[HASH_HEX_SIZE]);

/* Stop, wait for a read in progress, and free. NULL is fine. */
void layer_stream_close(struct layer_stream *s);
