/*
 * Delivers layers one after another to a reader that needs them in order. A thread fetches up to
 * one layer ahead, in bounded memory. A layer that the store has unpacked is rebuilt from its tree
 * and record (layer/record.h) instead of fetched. For this room's other files.
 */
#ifndef MLR_PULL_FEED_H
#define MLR_PULL_FEED_H

#include "base/error.h"
#include "layer/tar.h"
#include "oci/manifest.h"
#include "pull/source.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

struct feed_layer {
	const struct oci_layer *layer;
	const char *diff_id;
	uint64_t *received; /* counts compressed bytes, atomically */
};

struct feed;

/* Start fetching n layers in this order; v stays the caller's and must outlive the feed. */
int feed_new(struct store *st, struct pull_source *source, const struct feed_layer *v, size_t n,
	struct feed **ret, struct mlr_error *err);

/* Stop whatever is in progress and wait for the thread. NULL is fine. */
void feed_free(struct feed *f);

/*
 * Read the next layer to its end into a sink and check both digests. After a failure only
 * feed_free() may follow.
 *
 *   devices  grows by the device members that were left out
 *
 * Returns 0, -EBADMSG for wrong bytes, and errors of the source and layer_tar_read().
 */
int feed_next(struct feed *f, const struct layer_sink *sink, void *sink_ctx, uint64_t *devices,
	struct mlr_error *err);

#endif
