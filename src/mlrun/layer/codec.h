/*
 * Decompress a stream as it comes: gzip (RFC 1952) by ISA-L or zlib, zstd (RFC 8878) by libzstd,
 * each of any number of members or frames, so that eStargz and zstd:chunked, which are made of many
 * and carry tables of contents, are read like any other.
 *
 * After the last member, gzip may have zero bytes as padding; anything else there is refused.
 */
#ifndef MLR_LAYER_CODEC_H
#define MLR_LAYER_CODEC_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The largest zstd window that a layer may ask for, as a power of two: 128 MiB, what the zstd
 * program takes too unless told otherwise. */
#define LAYER_ZSTD_WINDOW_LOG 27

struct layer_inflate;

struct layer_inflate_ops {
	int (*run)(struct layer_inflate *z, const uint8_t **in, size_t *in_len, uint8_t **out,
		size_t *room, struct mlr_error *err);
	int (*end)(const struct layer_inflate *z, struct mlr_error *err);
	void (*free)(struct layer_inflate *z);
};

/* A decompressor begins with this. */
struct layer_inflate {
	const struct layer_inflate_ops *ops;
};

struct layer_inflate *layer_inflate_gzip(void);
struct layer_inflate *layer_inflate_zstd(void);

/*
 * Inflate until the input is used up or the output is full; all four variables move along. After it
 * returned with room left, everything that the input so far means has come out.
 *
 * Returns 0; -EBADMSG for what is of another kind or fails its checksum; -EFBIG for a zstd window
 * beyond LAYER_ZSTD_WINDOW_LOG; -ENOMEM.
 */
static inline int layer_inflate_run(struct layer_inflate *z, const uint8_t **in, size_t *in_len,
	uint8_t **out, size_t *room, struct mlr_error *err)
{
	return z->ops->run(z, in, in_len, out, room, err);
}

/* The input has ended: 0, or -EBADMSG when that is too early. */
static inline int layer_inflate_end(const struct layer_inflate *z, struct mlr_error *err)
{
	return z->ops->end(z, err);
}

static inline void layer_inflate_free(struct layer_inflate *z)
{
	if (z)
		z->ops->free(z);
}

#endif
