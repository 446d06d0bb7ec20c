/*
 * Inflate a gzip stream (RFC 1952) of any number of members as it comes, by ISA-L or zlib.
 * Zero bytes after the last member are padding; anything else there is refused.
 */
#ifndef MLR_LAYER_INFLATE_H
#define MLR_LAYER_INFLATE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct layer_inflate;

struct layer_inflate *layer_inflate_new(void);
void layer_inflate_free(struct layer_inflate *z);

/*
 * Inflate until the input is used up or the output is full; all four variables move along. After it
 * returned with room left, everything that the input so far means has come out.
 *
 * Returns 0, or -EBADMSG for what is not gzip or fails its checksum.
 */
int layer_inflate_run(struct layer_inflate *z, const uint8_t **in, size_t *in_len, uint8_t **out,
	size_t *room, struct mlr_error *err);

/* The input has ended: 0, or -EBADMSG when that is too early. */
int layer_inflate_end(const struct layer_inflate *z, struct mlr_error *err);

#endif
