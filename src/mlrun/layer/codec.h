/*
 * Decompresses and compresses layers, one file for each row of oci/compression.h.
 *
 * A stream may have any number of members (gzip, RFC 1952) or frames (zstd, RFC 8878); eStargz and
 * zstd:chunked consist of many. Zero bytes may follow the last gzip member as padding; anything
 * else is an error.
 */
#pragma once

#include "base/base.h"
#include "oci/compression.h"

/* The largest zstd window allowed, as a power of two: 128 MiB, like the zstd program. */
#define LAYER_ZSTD_WINDOW_LOG 27

#define LAYER_MAGIC_SIZE 4

/* Receives the next bytes. Returns 0, or -errno with err set to stop. */
typedef int (*layer_write_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

struct layer_inflate;

struct layer_inflate_ops {
	int (*run)(struct layer_inflate *z, const uint8_t **in, size_t *in_len, uint8_t **out,
		size_t *room, struct mlr_error *err);
	int (*end)(const struct layer_inflate *z, struct mlr_error *err);
	void (*free)(struct layer_inflate *z);
};

struct layer_inflate {
	const struct layer_inflate_ops *ops;
};

/*
 * Inflate until the input is used up or the output is full; advances all four variables. If it
 * returns with room left, all output of the input so far has been written.
 *
 * Returns 0; -EBADMSG for data of another kind or with a bad checksum; -EFBIG for a zstd window
 * beyond LAYER_ZSTD_WINDOW_LOG; -ENOMEM.
 */
static inline int layer_inflate_run(struct layer_inflate *z, const uint8_t **in, size_t *in_len,
	uint8_t **out, size_t *room, struct mlr_error *err)
{
	return z->ops->run(z, in, in_len, out, room, err);
}

/* Check, at the end of the input, that the stream is complete: 0 or -EBADMSG. */
static inline int layer_inflate_end(const struct layer_inflate *z, struct mlr_error *err)
{
	return z->ops->end(z, err);
}

static inline void layer_inflate_free(struct layer_inflate *z)
{
	if (z)
		z->ops->free(z);
}

struct layer_deflate;

struct layer_deflate_ops {
	int (*run)(struct layer_deflate *z, const void *buf, size_t len, int end,
		layer_write_fn write, void *ctx, struct mlr_error *err);
	void (*free)(struct layer_deflate *z);
};

struct layer_deflate {
	const struct layer_deflate_ops *ops;
};

/*
 * Compress the next bytes and pass the output to write, from the calling thread. The same bytes
 * give the same output on every machine; headers have no name and no time.
 *
 *   end  not 0: these bytes, perhaps none, are the last
 *
 * Returns 0, -EIO, or write's error.
 */
static inline int layer_deflate_run(struct layer_deflate *z, const void *buf, size_t len, int end,
	layer_write_fn write, void *ctx, struct mlr_error *err)
{
	return z->ops->run(z, buf, len, end, write, ctx, err);
}

static inline void layer_deflate_free(struct layer_deflate *z)
{
	if (z)
		z->ops->free(z);
}

struct layer_codec {
	int (*is_magic)(const unsigned char *b, size_t n); /* can a stream begin like this? */
	struct layer_inflate *(*inflate)(void);
	struct layer_deflate *(*deflate)(void);
};

#define ROW(ID, name) extern const struct layer_codec layer_##name;
OCI_COMPRESSIONS(ROW)
#undef ROW

/* NULL for OCI_PLAIN. */
const struct layer_codec *layer_codec(enum oci_compression c);

/*
 * Detect the compression by the stream's first bytes (LAYER_MAGIC_SIZE, unless it is shorter). Many
 * images have wrong media types, and Docker and containerd use the bytes, too.
 */
enum oci_compression layer_sniff(const void *magic, size_t n);
