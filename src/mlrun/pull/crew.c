#include "pull/crew.h"

#include "pull/layer.h"

#define TICK_MS 100

struct crew {
	struct crew_work *work;
	struct crew_news news; /* its lock guards the members below, except devices */
	size_t *order;         /* indices of waiting layers, largest first */
	size_t n_order, next;
	uint64_t devices; /* left out */
	int result;       /* the first failure */
	struct mlr_error err;
};

void crew_set_state(struct crew_news *news, struct pull_layer *shown, enum pull_state state)
{
	pthread_mutex_lock(&news->lock);
	__atomic_store_n(&shown->state, (int)state, __ATOMIC_RELEASE);
	news->changes++;
	pthread_cond_signal(&news->changed);
	pthread_mutex_unlock(&news->lock);
}

void crew_thread_ended(struct crew_news *news)
{
	pthread_mutex_lock(&news->lock);
	news->running--;
	pthread_cond_signal(&news->changed);
	pthread_mutex_unlock(&news->lock);
}

static void fail(struct crew *c, size_t i, int result, struct mlr_error *err)
{
	mlr_wrap(err, "layer %.19s", c->work->shown[i].digest);
	pthread_mutex_lock(&c->news.lock);
	if (c->result == 0) {
		c->result = result;
		c->err = *err;
	}
	pthread_mutex_unlock(&c->news.lock);
	__atomic_store_n(c->work->stop, 1, __ATOMIC_RELAXED);
}

/* The next layer to fetch, or n if there is none. */
static size_t take_next(struct crew *c)
{
	size_t i = c->work->n;

	pthread_mutex_lock(&c->news.lock);
	if (c->next < c->n_order)
		i = c->order[c->next++];
	pthread_mutex_unlock(&c->news.lock);
	return i;
}

static void *worker_main(void *ctx)
{
	struct crew *c = ctx;
	struct crew_work *w = c->work;
	size_t i;

	while (!__atomic_load_n(c->work->stop, __ATOMIC_RELAXED) && (i = take_next(c)) < w->n) {
		struct mlr_error err = MLR_ERROR_INIT;
		uint64_t devices = 0;
		int r;

		crew_set_state(&c->news, &w->shown[i], PULL_RUNNING);
		for (int tries = 0;; tries++) {
			r = pull_layer_bring(w->st, w->source, &w->layers[i], w->parts,
				w->diff_ids[i], &w->shown[i].received, &devices, &err);
			if (r >= 0 || tries >= pull_source_distrust(w->source, r))
				break;
			__atomic_store_n(&w->shown[i].received, 0, __ATOMIC_RELAXED);
		}
		__atomic_add_fetch(&c->devices, devices, __ATOMIC_RELAXED);
		if (r < 0)
			fail(c, i, r, &err);
		else
			crew_set_state(&c->news, &w->shown[i], r == 1 ? PULL_PRESENT : PULL_DONE);
	}
	crew_thread_ended(&c->news);
	return NULL;
}

static int by_size_descending(const void *a, const void *b, void *layers)
{
	const struct oci_layer *l = layers;
	uint64_t x = l[*(const size_t *)a].blob.size, y = l[*(const size_t *)b].blob.size;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int seen_before(const struct crew_work *w, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(w->diff_ids[i], w->diff_ids[j]) == 0 &&
			(!(w->parts & LAYER_BLOB) ||
				strcmp(w->layers[i].blob.digest, w->layers[j].blob.digest) == 0))
			return 1;
	return 0;
}

static void make_order(struct crew *c)
{
	struct crew_work *w = c->work;

	c->order = xcalloc(w->n, sizeof(*c->order));
	for (size_t i = 0; i < w->n; i++) {
		if (w->shown[i].state != PULL_WAITING)
			continue;
		if (seen_before(w, i))
			w->shown[i].state = PULL_PRESENT;
		else
			c->order[c->n_order++] = i;
	}
	qsort_r(c->order, c->n_order, sizeof(*c->order), by_size_descending, (void *)w->layers);
}

void crew_attend(
	struct crew_news *news, const struct pull_watch *watch, const int *cancel, int *stop)
{
	size_t seen = 0;

	pthread_mutex_lock(&news->lock);
	while (news->running > 0) {
		if (news->changes == seen)
			mlr_cond_wait_ms(&news->changed, &news->lock, TICK_MS);
		seen = news->changes;
		pthread_mutex_unlock(&news->lock);
		if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			__atomic_store_n(stop, 1, __ATOMIC_RELAXED);
		if (watch->tick)
			watch->tick(watch->ctx);
		pthread_mutex_lock(&news->lock);
	}
	pthread_mutex_unlock(&news->lock);
	if (watch->tick)
		watch->tick(watch->ctx);
}

static size_t start(struct crew *c, pthread_t *threads, size_t jobs)
{
	size_t n = 0;

	while (n < jobs && n < c->n_order) {
		int r;

		pthread_mutex_lock(&c->news.lock);
		c->news.running++;
		pthread_mutex_unlock(&c->news.lock);
		r = pthread_create(&threads[n], NULL, worker_main, c);
		if (r == 0) {
			n++;
			continue;
		}
		crew_thread_ended(&c->news);
		if (n == 0)
			c->result = mlr_fail(&c->err, r, "start a thread: %s", strerror(r));
		break; /* fewer threads than requested suffice */
	}
	return n;
}

/* The loss is harmless, but explains a missing /dev/fuse in a container. */
void crew_tell_devices(uint64_t n, const struct pull_watch *watch)
{
	auto_free char *words = NULL;

	if (n == 0 || !watch->notice)
		return;
	words = xasprintf(
		"%llu device%s of the image %s left out, as an ordinary user can make none; "
		"containers have a /dev of their own",
		(unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
	watch->notice(watch->ctx, words);
}

int crew_run(struct crew_work *w, int jobs, const struct pull_watch *watch, const int *cancel,
	struct mlr_error *err)
{
	struct crew c = { .work = w, .news = CREW_NEWS_INIT, .err = MLR_ERROR_INIT };
	pthread_t threads[PULL_JOBS_MAX];
	size_t n;

	make_order(&c);
	n = start(&c, threads, (size_t)jobs);
	crew_attend(&c.news, watch, cancel, w->stop);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	free(c.order);

	if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (c.result < 0)
		*err = c.err;
	else
		crew_tell_devices(c.devices, watch);
	return c.result;
}
