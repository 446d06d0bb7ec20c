#include "pull/squash.h"

#include "base/base.h"
#include "pull/crew.h"
#include "pull/feed.h"
#include "squashfs/writer.h"
#include "store/tree.h"

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

static void feed_cleanup(struct feed **f)
{
	feed_free(*f);
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
	auto_call(feed_cleanup) struct feed *feed = NULL;
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
	int r = hash_fd(fd, NULL, NULL, digest + strlen("sha256:"), NULL);

	if (r < 0)
		return mlr_fail(err, -r, "read the squashfs file: %s", strerror(-r));
	memcpy(digest, "sha256:", strlen("sha256:"));
	return 0;
}

static int fill(struct squashing *s, int fd, struct mlr_error *err)
{
	int r;

	TRY(squashfs_writer_new(fd, s->work->n, seconds_of(s->work->created), &s->squash, err));
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

	if (r < 0)
		return r;
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
