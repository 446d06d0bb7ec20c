#include "pull/squash.h"

#include "layer/record.h"
#include "layer/tar.h"
#include "pull/crew.h"
#include "pull/layer.h"
#include "rootfs/layers.h"
#include "squashfs/writer.h"
#include "store/tree.h"

/*
 * Delivers layers one after another to a reader that needs them in order. A thread fetches up to
 * one layer ahead, in bounded memory. A layer that the store has unpacked is rebuilt from its tree
 * and record (layer/record.h) instead of fetched.
 */

struct feed_layer {
	const struct oci_layer *layer;
	const char *diff_id;
	uint64_t *received; /* counts compressed bytes, atomically */
};

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

/* Stop whatever is in progress and wait for the thread. NULL is fine. */
static void feed_free(struct feed **at)
{
	struct feed *f = *at;

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

/* Start fetching n layers in this order; v stays the caller's and must outlive the feed. */
static int feed_new(struct store *st, struct pull_source *source, const struct feed_layer *v,
	size_t n, struct feed **ret, struct mlr_error *err)
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
		feed_free(&f);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	f->has_thread = 1;
	*ret = f;
	return 0;
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
	struct layer_result res = { 0 };
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

/*
 * Read the next layer to its end into a sink and check both digests. After a failure only
 * feed_free() may follow.
 *
 *   devices  grows by the device members that were left out
 *
 * Returns 0, -EBADMSG for wrong bytes, and errors of the source and layer_tar_read().
 */
static int feed_next(struct feed *f, const struct layer_sink *sink, void *sink_ctx,
	uint64_t *devices, struct mlr_error *err)
{
	size_t i = f->read;

	wait_for(f, &f->begun, i);
	if (read_layer(f, i, sink, sink_ctx, devices, err) < 0)
		return mlr_wrap(err, "layer %.19s", f->v[i].layer->blob.digest);
	queue_free(take_ptr(&f->flows[i].queue));
	step(f, &f->read);
	return 0;
}

/* The state that the working thread shares with the calling one. */
struct squashing {
	struct squash_work *work;
	struct squashfs_writer *squash;
	char *digest;
	uint64_t devices; /* left out */
	int result;
	struct mlr_error err;
	struct crew_news news;
};

static void set_state(struct squashing *s, size_t i, enum pull_state state)
{
	crew_set_state(&s->news, &s->work->shown[i], state);
}

/*
 * Feed layers to the writer: all, or those whose data it lacks. The writer counts layers from the
 * topmost, the manifest from the lowest.
 */
static int feed_layers(struct squashing *s, int again, struct mlr_error *err)
{
	struct squash_work *w = s->work;
	auto_free struct feed_layer *v = xcalloc(w->n, sizeof(*v));
	auto_free size_t *from_top = xcalloc(w->n, sizeof(*from_top));
	auto_call(feed_free) struct feed *feed = NULL;
	uint64_t devices = 0;
	size_t n = 0;
	int r = 0;

	for (size_t k = 0; k < w->n; k++) {
		size_t i = w->n - 1 - k;

		if (again && !squashfs_writer_lacks(s->squash, k))
			continue;
		__atomic_store_n(&w->shown[i].received, 0, __ATOMIC_RELAXED);
		from_top[n] = k;
		v[n++] =
			(struct feed_layer){ &w->layers[i], w->diff_ids[i], &w->shown[i].received };
	}
	if (n > 0)
		r = feed_new(w->st, w->source, v, n, &feed, err);
	for (size_t k = 0; k < n && r == 0; k++) {
		set_state(s, w->n - 1 - from_top[k], PULL_RUNNING);
		r = again ? squashfs_writer_layer_again(s->squash, from_top[k], err)
			  : squashfs_writer_layer(s->squash, err);
		if (r == 0)
			r = feed_next(feed, &squashfs_writer_sink, s->squash, &devices, err);
		if (r == 0)
			set_state(s, w->n - 1 - from_top[k], PULL_DONE);
	}
	if (!again)
		s->devices = devices;
	if (r < 0) /* also ends the fetch ahead */
		__atomic_store_n(w->stop, 1, __ATOMIC_RELAXED);
	return r;
}

static int64_t seconds_of(const char *created)
{
	struct tm tm = { 0 };
	const char *rest = created ? strptime(created, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	int hours = 0, minutes = 0;
	int64_t t;

	if (!rest)
		return 0;
	t = timegm(&tm);
	rest += strspn(rest, ".0123456789");
	if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d:%2d", &hours, &minutes) == 2)
		t -= (*rest == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
	return t < 0 ? 0 : t;
}

static int hash_file(int fd, char digest[8 + HASH_HEX_SIZE], struct mlr_error *err)
{
	TRY(mlr_result(err, hash_fd(fd, NULL, NULL, digest + strlen("sha256:"), NULL),
		"read the squashfs file"));
	memcpy(digest, "sha256:", strlen("sha256:"));
	return 0;
}

static int fill(struct squashing *s, int fd, struct mlr_error *err)
{
	int r;

	TRY(squashfs_writer_new(
		fd, OCI_ZSTD, s->work->n, seconds_of(s->work->created), &s->squash, err));
	r = feed_layers(s, 0, err);
	if (r == 0)
		r = squashfs_writer_apply(s->squash, err);
	if (r == 0)
		r = feed_layers(s, 1, err);
	if (r == 0)
		r = squashfs_writer_finish(s->squash, err);
	squashfs_writer_free(s->squash);
	return r == 0 ? hash_file(fd, s->digest, err) : r;
}

/* The file exists: made under another name or by another process. Returns 1. */
static int take_existing(struct squashing *s, struct mlr_error *err)
{
	auto_close int fd = store_tree_open(s->work->st, STORE_SQUASH, s->work->manifest, err);
	int r = fd < 0 ? fd : hash_file(fd, s->digest, err);

	for (size_t i = 0; i < s->work->n; i++)
		set_state(s, i, PULL_PRESENT);
	return r < 0 ? r : 1;
}

static int make_once(struct squashing *s, struct mlr_error *err)
{
	struct store_tree *t = NULL;
	int r = store_tree_begin(s->work->st, STORE_SQUASH, s->work->manifest, &t, err);

	TRY(r);
	if (r == 1)
		return take_existing(s, err);
	r = fill(s, store_tree_fd(t), err);
	if (r < 0) {
		store_tree_drop(t);
		return r;
	}
	return store_tree_publish(t, err);
}

/* Retry if the bytes may have been a mirror's. */
static int make(struct squashing *s, struct mlr_error *err)
{
	for (int tries = 0;; tries++) {
		int r = make_once(s, err);

		if (r >= 0 || tries >= pull_source_distrust(s->work->source, r))
			return r;
		__atomic_store_n(s->work->stop, 0, __ATOMIC_RELAXED);
	}
}

static void *squashing_main(void *ctx)
{
	struct squashing *s = ctx;

	s->result = make(s, &s->err);
	crew_thread_ended(&s->news);
	return NULL;
}

int squash_bring(struct squash_work *w, const struct pull_watch *watch, const int *cancel,
	char digest[8 + HASH_HEX_SIZE], struct mlr_error *err)
{
	struct squashing s = {
		.work = w, .digest = digest, .err = MLR_ERROR_INIT, .news = CREW_NEWS_INIT
	};
	pthread_t thread;
	int r;

	s.news.running = 1;
	r = pthread_create(&thread, NULL, squashing_main, &s);
	if (r == 0) {
		crew_attend(&s.news, watch, cancel, w->stop);
		pthread_join(thread, NULL);
	} else {
		s.result = mlr_fail(&s.err, r, "start a thread: %s", strerror(r));
	}

	if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (s.result < 0)
		*err = s.err;
	else
		crew_tell_devices(s.devices, watch);
	return s.result;
}
