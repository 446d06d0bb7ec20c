#include "pull/feed.h"

#include "base/base.h"
#include "layer/record.h"
#include "oci/digest.h"
#include "pull/layer.h"
#include "pull/queue.h"
#include "rootfs/layers.h"
#include "store/tree.h"

#include <pthread.h>

#define AHEAD 2 /* queues at once: the current layer's and the next one's */

/* The state of one layer. */
struct flow {
	struct queue *queue; /* NULL when not needed */
	int result;          /* the fetch's, once it has ended */
	struct mlr_error err;
};

struct feed {
	struct store *st;
	struct pull_source *source;
	const struct feed_layer *v;
	size_t n;

	pthread_t thread;
	int has_thread;
	pthread_mutex_t lock; /* guards the next four */
	pthread_cond_t changed;
	size_t begun, ended, read; /* how many layers' queues were made; were filled; were read */
	int stop;

	struct flow *flows; /* one for each layer */
	size_t at;          /* the thread's layer */
};

static int count_and_put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct feed *f = ctx;

	__atomic_add_fetch(f->v[f->at].received, len, __ATOMIC_RELAXED);
	return queue_put(f->flows[f->at].queue, buf, len, err);
}

/* Write a layer's tar from the store. Returns 1, 0 if the store lacks a part, or -errno. */
static int rebuild(struct feed *f, struct mlr_error *err)
{
	const char *diff_id = f->v[f->at].diff_id;
	auto_close int tree = -1, record = -1;
	int r;

	if (!store_tree_exists(f->st, STORE_LAYER, diff_id))
		return 0;
	record = rootfs_layer_record(f->st, diff_id, NULL);
	if (record < 0)
		return 0; /* a layer of an older mlrun has none */
	tree = store_tree_open(f->st, STORE_LAYER, diff_id, err);
	if (tree < 0)
		return tree;
	r = rootfs_layer_rebuild(diff_id, record, tree, queue_put, f->flows[f->at].queue, err);
	if (r < 0) {
		mlr_wrap(err, "write it from the store");
		return r == -EPIPE ? r
				   : mlr_hint(err, "mlrun store verify --repair mends the store");
	}
	return 1;
}

static int bring(struct feed *f, struct mlr_error *err)
{
	const struct oci_descriptor *blob = &f->v[f->at].layer->blob;
	int r = rebuild(f, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return f->source->ops->stream(f->source, blob->digest, blob->size, count_and_put, f, err);
}

/* Wait until the layer may have a queue. Returns 0 if the reader has stopped. */
static int wait_turn(struct feed *f)
{
	int go;

	pthread_mutex_lock(&f->lock);
	while (!f->stop && f->at >= f->read + AHEAD)
		pthread_cond_wait(&f->changed, &f->lock);
	go = !f->stop;
	pthread_mutex_unlock(&f->lock);
	return go;
}

/* Advance a counter. Returns 0 if the reader has stopped. */
static int step(struct feed *f, size_t *counter)
{
	int go;

	pthread_mutex_lock(&f->lock);
	++*counter;
	go = !f->stop;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	return go;
}

/* A queue ends only after the digest is checked, so the reader never takes wrong bytes for a whole
 * layer. */
static void *feed_main(void *ctx)
{
	struct feed *f = ctx;

	for (f->at = 0; f->at < f->n && wait_turn(f); f->at++) {
		struct flow *w = &f->flows[f->at];

		w->result = queue_new(&w->queue, &w->err);
		if (!step(f, &f->begun)) /* otherwise feed_free() knows the queue and leaves it */
			break;
		if (w->result == 0) {
			w->result = bring(f, &w->err);
			queue_end(w->queue, w->result, &w->err);
		}
		step(f, &f->ended);
		if (w->result < 0)
			break;
	}
	return NULL;
}

int feed_new(struct store *st, struct pull_source *source, const struct feed_layer *v, size_t n,
	struct feed **ret, struct mlr_error *err)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	int r;

	f->st = st;
	f->source = source;
	f->v = v;
	f->n = n;
	f->flows = xcalloc(n, sizeof(*f->flows));
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	r = pthread_create(&f->thread, NULL, feed_main, f);
	if (r != 0) {
		feed_free(f);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	f->has_thread = 1;
	*ret = f;
	return 0;
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = 1;
	for (size_t i = f->read; i < f->begun; i++)
		if (f->flows[i].queue)
			queue_leave(f->flows[i].queue);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	if (f->has_thread)
		pthread_join(f->thread, NULL);
	for (size_t i = 0; i < f->n; i++)
		queue_free(f->flows[i].queue);
	free(f->flows);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* Wait until a counter exceeds the layer's index. */
static void wait_for(struct feed *f, const size_t *counter, size_t i)
{
	pthread_mutex_lock(&f->lock);
	while (*counter <= i)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static int read_layer(struct feed *f, size_t i, const struct layer_sink *sink, void *sink_ctx,
	uint64_t *devices, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;
	struct layer_result res = LAYER_RESULT_INIT;
	const struct feed_layer *l = &f->v[i];
	struct flow *w = &f->flows[i];
	int r;

	if (!w->queue) {
		*err = w->err;
		return w->result;
	}
	r = layer_tar_read(queue_get, w->queue, pull_layer_compression(w->queue, l->layer), &limits,
		sink, sink_ctx, &res, err);
	queue_leave(w->queue);
	wait_for(f, &f->ended, i);
	/* If both ends fail, report the source's failure, unless it only says that the reader has
	 * stopped. */
	if (w->result < 0 && w->result != -EPIPE) {
		*err = w->err;
		return w->result;
	}
	if (r == 0 && w->result < 0)
		return mlr_fail(err, EPROTO, "the archive ends before the blob does");
	if (r == 0 && strcmp(res.diff_id, l->diff_id) != 0)
		r = mlr_fail(err, EBADMSG, "unpacks to %s, the image's configuration says %s",
			res.diff_id, l->diff_id);
	*devices += res.devices_skipped;
	layer_result_done(&res);
	return r;
}

int feed_next(struct feed *f, const struct layer_sink *sink, void *sink_ctx, uint64_t *devices,
	struct mlr_error *err)
{
	size_t i = f->read;
	int r;

	wait_for(f, &f->begun, i);
	r = read_layer(f, i, sink, sink_ctx, devices, err);
	if (r < 0)
		return mlr_wrap(err, "layer %.19s", f->v[i].layer->blob.digest);
	queue_free(take_ptr(&f->flows[i].queue));
	step(f, &f->read);
	return 0;
}
