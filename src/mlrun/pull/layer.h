/* Brings one layer from its source to a published tree. For this room's other files. */
#pragma once

#include "layer/unpack.h"
#include "oci/manifest.h"
#include "pull/queue.h"
#include "pull/source.h"
#include "store/store.h"

/* How a layer's bytes are compressed, from their first bytes; for an empty blob, from its media
 * type. Call it before any queue_get(). */
enum oci_compression pull_layer_compression(struct queue *q, const struct oci_layer *layer);

/* The parts of a layer to make. */
enum layer_parts { LAYER_TREE = 1, LAYER_BLOB = 2 };

/*
 * Bring one layer.
 *
 *   parts     enum layer_parts; a source that keeps blobs (source.h) keeps a tree's blob as well
 *   diff_id   what the uncompressed tar must hash to; the tree's name in the store
 *   received  compressed bytes so far, written atomically
 *   devices   how many device members were left out; set on success
 *
 * Returns 0; 1 if the store has the parts already; -EBADMSG for wrong bytes; errors of the source,
 * layer_unpack() and store_tree_begin().
 */
int pull_layer_bring(struct store *st, struct pull_source *source, const struct oci_layer *layer,
	unsigned parts, const char *diff_id, uint64_t *received, uint64_t *devices,
	struct mlr_error *err);
