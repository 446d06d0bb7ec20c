#include "data/loader.h"

#include "data/image.h"

#include <assert.h>

#define THREADS_MAX 256
#define NONE        UINT64_MAX

struct loader {
	const struct image_set *set;
	struct ring *ring; /* NULL: the set is in memory */
	int rows, ahead;
	uint16_t *labels; /* [ahead][rows] */
	uint32_t *index;  /* [ahead][rows], for ranges */
	/* The arguments of loader_start(), which the ring's lock protects. */
	const uint32_t *order; /* NULL: a range */
	const struct augment *augment;
	size_t stride;
	uint32_t first;
	uint64_t images; /* in all batches of this rank */
	uint64_t taken;  /* batches handed out */
};

/* Threads that decode files into a ring of batches ahead. */
struct ring {
	const struct loader *l;
	const char *dir;
	struct image_size size;
	size_t image_bytes;
	int slots;       /* its size in batches: twice the most that are taken at once */
	uint8_t *pixels; /* [slots][rows] images */
	pthread_t threads[THREADS_MAX];
	int n_threads;

	pthread_mutex_t lock;   /* protects all below */
	pthread_cond_t work;    /* there may be an image to decode, or the ring closes */
	pthread_cond_t decoded; /* an image is decoded, or a thread became idle */
	int quit, busy;
	uint64_t next;     /* image to be decoded */
	uint64_t released; /* batches whose slots may be overwritten */
	int *done;         /* [slots] images decoded */
	uint64_t failed;   /* the first image that failed, or NONE */
	struct mlr_error error;
};

static uint32_t file_of(const struct loader *l, uint64_t image)
{
	uint64_t batch = image / (uint64_t)l->rows, row = image % (uint64_t)l->rows;

	return l->order ? l->order[batch * l->stride + row] : l->first + (uint32_t)image;
}

/* Is there an image to decode, and a free slot for it? */
static int has_work(const struct ring *r)
{
	return r->failed == NONE && r->next < r->l->images &&
		r->next / (uint64_t)r->l->rows < r->released + (uint64_t)r->slots;
}

static int slot_of(const struct ring *r, uint64_t batch)
{
	return (int)(batch % (uint64_t)r->slots);
}

static uint8_t *slot_pixels(const struct ring *r, uint64_t batch)
{
	return r->pixels + (size_t)slot_of(r, batch) * (size_t)r->l->rows * r->image_bytes;
}

/* Decode the next image. The caller holds the lock, which is released meanwhile. */
static void decode_one(struct ring *r)
{
	const struct loader *l = r->l;
	uint64_t image = r->next++, batch = image / (uint64_t)l->rows;
	auto_free char *path = xasprintf("%s/%s", r->dir, l->set->files[file_of(l, image)].path);
	uint8_t *to = slot_pixels(r, batch) + image % (uint64_t)l->rows * r->image_bytes;
	struct mlr_error err = MLR_ERROR_INIT;
	int e;

	r->busy++;
	pthread_mutex_unlock(&r->lock);
	e = image_read(path, &r->size, to, &err);
	if (e < 0)
		mlr_hint(&err, LOADER_HINT);
	pthread_mutex_lock(&r->lock);
	r->busy--;
	if (e == 0) {
		r->done[slot_of(r, batch)]++;
	} else if (image < r->failed) {
		r->failed = image;
		r->error = err;
	}
	pthread_cond_signal(&r->decoded);
}

static void *thread_main(void *arg)
{
	struct ring *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		if (has_work(r))
			decode_one(r);
		else
			pthread_cond_wait(&r->work, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Only the computing thread handles signals. */
static int start_threads(struct ring *r, int threads, struct mlr_error *err)
{
	sigset_t all, was;
	int e = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	while (e == 0 && r->n_threads < threads && r->n_threads < THREADS_MAX) {
		e = pthread_create(&r->threads[r->n_threads], NULL, thread_main, r);
		r->n_threads += e == 0;
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (r->n_threads)
		return 0;
	return mlr_result(err, -e, "start a thread that decodes images");
}

static void ring_close(struct ring **ring)
{
	struct ring *r = *ring;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->quit = 1;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_cond_destroy(&r->decoded);
	pthread_cond_destroy(&r->work);
	pthread_mutex_destroy(&r->lock);
	free(r->pixels);
	free(r->done);
	free(r);
	*ring = NULL;
}

static int ring_open(struct loader *l, const struct dataset *of, int threads, struct mlr_error *err)
{
	auto_call(ring_close) struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->decoded, NULL);
	r->l = l;
	r->dir = of->dir;
	r->size = (struct image_size){ of->channels, of->height, of->width };
	r->image_bytes = (size_t)of->channels * of->height * of->width;
	r->slots = 2 * l->ahead;
	r->failed = NONE;
	r->done = calloc((size_t)r->slots, sizeof(*r->done));
	r->pixels = calloc((size_t)r->slots * (size_t)l->rows, r->image_bytes);
	if (!r->done || !r->pixels)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for %d batches of images",
			(size_t)r->slots * (size_t)l->rows * r->image_bytes, r->slots);
	TRY(start_threads(r, threads, err));
	l->ring = take_ptr(&r);
	return 0;
}

static uint64_t batches(const struct loader *l)
{
	return (l->images + (uint64_t)l->rows - 1) / (uint64_t)l->rows;
}

static int is_ready(const struct ring *r, uint64_t batch)
{
	uint64_t left = r->l->images - batch * (uint64_t)r->l->rows;
	int rows = left < (uint64_t)r->l->rows ? (int)left : r->l->rows;

	return r->done[slot_of(r, batch)] == rows;
}

/* Images begin in order: once all threads are idle, no earlier image can fail. */
static int has_failed(const struct ring *r)
{
	return r->failed != NONE && !r->busy && !is_ready(r, r->l->taken);
}

static void release_taken(struct ring *r)
{
	for (; r->released < r->l->taken; r->released++)
		r->done[slot_of(r, r->released)] = 0;
	pthread_cond_broadcast(&r->work);
}

/*
 * Wait for the next batch. Returns how many are ready, up to max. The error of the first failed
 * file of the next batch repeats until loader_start().
 */
static int ring_wait(struct ring *r, int max, struct mlr_error *err)
{
	uint64_t next = r->l->taken, end = batches(r->l);
	int n = 0;

	pthread_mutex_lock(&r->lock);
	release_taken(r);
	while (next < end && !is_ready(r, next) && !has_failed(r))
		pthread_cond_wait(&r->decoded, &r->lock);
	if (next < end && !is_ready(r, next)) {
		n = -r->error.code;
		if (err)
			*err = r->error;
	}
	while (n >= 0 && n < max && next + (uint64_t)n < end && is_ready(r, next + (uint64_t)n))
		n++;
	pthread_mutex_unlock(&r->lock);
	return n;
}

/* --- the loader ----------------------------------------------------------------------------- */

int loader_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct loader **ret, struct mlr_error *err)
{
	size_t cells = (size_t)o->ahead * (size_t)o->rows;
	auto_call(loader_close) struct loader *l = calloc(1, sizeof(*l));

	assert(o->rows > 0 && o->ahead > 0 && o->threads > 0);
	if (l) {
		l->labels = calloc(cells, sizeof(*l->labels));
		l->index = calloc(cells, sizeof(*l->index));
	}
	if (!l || !l->labels || !l->index)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for batches",
			cells * (sizeof(*l->labels) + sizeof(*l->index)));
	l->set = set;
	l->rows = o->rows;
	l->ahead = o->ahead;
	if (!set->images && set->files)
		TRY(ring_open(l, of, o->threads, err));
	*ret = take_ptr(&l);
	return 0;
}

void loader_close(struct loader **l)
{
	if (!*l)
		return;
	ring_close(&(*l)->ring);
	free((*l)->labels);
	free((*l)->index);
	free(*l);
	*l = NULL;
}

/* Start anew. Pending batches are dropped. */
static void start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint32_t first, uint64_t images)
{
	struct ring *r = l->ring;

	if (r)
		pthread_mutex_lock(&r->lock);
	l->images = 0; /* begin no new image */
	while (r && r->busy)
		pthread_cond_wait(&r->decoded, &r->lock);
	l->order = order;
	l->augment = augment;
	l->stride = stride;
	l->first = first;
	l->images = images;
	l->taken = 0;
	if (!r)
		return;
	r->next = r->released = 0;
	r->failed = NONE;
	memset(r->done, 0, (size_t)r->slots * sizeof(*r->done));
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
}

void loader_start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint64_t n)
{
	start(l, order, augment, stride, 0, n * (uint64_t)l->rows);
}

void loader_start_range(struct loader *l, uint32_t first, uint32_t count)
{
	assert(first <= l->set->count && count <= l->set->count - first);
	start(l, NULL, NULL, 0, first, count);
}

/* Write batch number `at` into the cells of place k. */
static void fill(struct loader *l, int k, uint64_t at, struct batch *ret)
{
	uint64_t left = l->images - at * (uint64_t)l->rows;
	int rows = left < (uint64_t)l->rows ? (int)left : l->rows;
	uint16_t *labels = l->labels + (size_t)k * (size_t)l->rows;
	uint32_t *range = l->index + (size_t)k * (size_t)l->rows;
	const uint32_t *index = l->order ? l->order + at * l->stride : range;

	for (int i = 0; i < rows; i++) {
		if (!l->order)
			range[i] = l->first + (uint32_t)(at * (uint64_t)l->rows) + (uint32_t)i;
		assert(index[i] < l->set->count);
		labels[i] = l->set->labels[index[i]];
	}
	*ret = (struct batch){ .rows = rows,
		.images = l->set->images,
		.index = index,
		.augment = l->augment ? l->augment + at * l->stride : NULL,
		.labels = labels };
}

int loader_take(struct loader *l, int max, struct batch *ret, struct mlr_error *err)
{
	uint64_t left = batches(l) - l->taken;
	int n = left < (uint64_t)max ? (int)left : max;

	assert(max > 0 && max <= l->ahead);
	if (l->ring)
		n = ring_wait(l->ring, max, err);
	for (int k = 0; k < n; k++, l->taken++) {
		fill(l, k, l->taken, &ret[k]);
		if (l->ring) { /* images in the batch's order */
			ret[k].images = slot_pixels(l->ring, l->taken);
			ret[k].index = NULL;
		}
	}
	return n;
}
