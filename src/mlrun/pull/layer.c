#include "pull/layer.h"

#include "layer/record.h"
#include "rootfs/flatten.h"
#include "store/blob.h"
#include "store/tree.h"

/* State shared by the thread that reads from the source and the one that writes files. */
struct download {
	struct pull_source *source;
	const struct oci_layer *layer;
	uint64_t *received;
	struct queue *queue;
	int result;
	struct mlr_error err;
};

static int count_and_put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct download *d = ctx;

	__atomic_add_fetch(d->received, len, __ATOMIC_RELAXED);
	return queue_put(d->queue, buf, len, err);
}

enum oci_compression pull_layer_compression(struct queue *q, const struct oci_layer *layer)
{
	unsigned char magic[LAYER_MAGIC_SIZE];
	size_t n = queue_peek(q, magic, sizeof(magic));

	return n == 0 ? layer->compression : layer_sniff(magic, n);
}

/* The queue ends only after the digest is checked, so the reader never takes wrong bytes for a
 * whole layer. */
static void *download_main(void *ctx)
{
	struct download *d = ctx;
	const struct oci_descriptor *blob = &d->layer->blob;

	d->result = d->source->ops->stream(
		d->source, blob->digest, blob->size, count_and_put, d, &d->err);
	queue_end(d->queue, d->result, &d->err);
	return NULL;
}

/* Run the pipeline. If both ends fail, report the source's failure, unless it only says that the
 * reader has stopped. */
static int stream(struct download *d, struct store_tree *tree, struct layer_result *result,
	struct mlr_error *err)
{
	auto_close int record = store_tree_note_open(tree, LAYER_RECORD_NAME, err);
	pthread_t thread;
	int r;

	if (record < 0)
		return record;
	r = pthread_create(&thread, NULL, download_main, d);
	if (r != 0)
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	r = layer_unpack(queue_get, d->queue, pull_layer_compression(d->queue, d->layer),
		store_tree_fd(tree), record, result, err);
	queue_leave(d->queue);
	pthread_join(thread, NULL);

	if (d->result < 0 && d->result != -EPIPE) {
		*err = d->err;
		return d->result;
	}
	if (r == 0 && d->result < 0)
		return mlr_fail(err, EPROTO, "the archive ends before the blob does");
	return r;
}

static int count(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	__atomic_add_fetch((uint64_t *)ctx, len, __ATOMIC_RELAXED);
	return 0;
}

/* Fetch a blob; the source keeps it. Returns as pull_layer_bring(). */
static int bring_blob(struct store *st, struct pull_source *source, const struct oci_layer *layer,
	uint64_t *received, struct mlr_error *err)
{
	const struct oci_descriptor *blob = &layer->blob;

	if (store_blob_is_kept(st, blob->digest, blob->size))
		return 1;
	return source->ops->stream(source, blob->digest, blob->size, count, received, err);
}

static int bring_tree(struct store *st, struct pull_source *source, const struct oci_layer *layer,
	const char *diff_id, uint64_t *received, uint64_t *devices, struct mlr_error *err)
{
	auto_call(layer_result_done) struct layer_result result = { 0 };
	auto_call(queue_cleanup) struct queue *queue = NULL;
	auto_call(store_tree_cleanup) struct store_tree *tree = NULL;
	struct download d = { .source = source, .layer = layer, .received = received };
	int r;

	r = store_tree_begin(st, STORE_LAYER, diff_id, &tree, err);
	if (r != 0)
		return r;
	TRY(queue_new(&queue, err));
	d.queue = queue;
	TRY(stream(&d, tree, &result, err));
	if (strcmp(result.diff_id, diff_id) != 0)
		return mlr_fail(err, EBADMSG, "unpacks to %s, the image's configuration says %s",
			result.diff_id, diff_id);
	r = rootfs_layer_note(tree, &result, err);
	if (r == 0)
		r = store_tree_publish(take_ptr(&tree), err);
	if (r == 0)
		*devices = result.devices_skipped;
	return r;
}

int pull_layer_bring(struct store *st, struct pull_source *source, const struct oci_layer *layer,
	unsigned parts, const char *diff_id, uint64_t *received, uint64_t *devices,
	struct mlr_error *err)
{
	int r = parts & LAYER_TREE ? bring_tree(st, source, layer, diff_id, received, devices, err)
				   : 1;

	return r == 1 && (parts & LAYER_BLOB) ? bring_blob(st, source, layer, received, err) : r;
}
