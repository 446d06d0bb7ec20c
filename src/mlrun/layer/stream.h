/*
 * A layer's tar as a stream: a thread reads and inflates into a few buffers, another hashes them,
 * and the caller uses them meanwhile, so that several cores have work. Memory is bounded by the
 * buffers, about 5 MiB.
 */
#ifndef MLR_LAYER_STREAM_H
#define MLR_LAYER_STREAM_H

#include "layer/unpack.h"

struct layer_stream;

/* Start reading. Returns 0, -EAGAIN when no thread can be had, -ENOMEM. */
int layer_stream_open(layer_read_fn read, void *ctx, enum oci_compression comp,
	const struct layer_limits *limits, struct layer_stream **ret, struct mlr_error *err);

/*
 * The next stretch of the tar; *buf is good until the next call.
 *
 * Returns its length, 0 at the end, or what the reading, inflating or a limit failed with.
 */
ssize_t layer_stream_next(struct layer_stream *s, const void **buf, struct mlr_error *err);

/* Bytes handed out so far. */
uint64_t layer_stream_bytes(const struct layer_stream *s);

/* The sha256 of all that was handed out; once, after the end. */
void layer_stream_digest(struct layer_stream *s, char hex[HASH_HEX_SIZE]);

/* Stop, waiting for a read under way, and free. NULL is fine. */
void layer_stream_close(struct layer_stream *s);

#endif
