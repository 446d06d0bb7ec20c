#include "data/loader.h"

#include "data/image.h"

#include <assert.h>

#define THREADS_MAX 256
#define NONE        UINT64_MAX

/* Threads that decode files into a ring of batches ahead. */
struct ring {
	struct loader_options o;
	const char *dir;
	const struct image_file *files;
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
	const uint32_t *order;
	size_t stride;
	uint32_t first;
	uint64_t images, next; /* images in all; next: to be decoded */
	uint64_t taken;        /* batches handed out */
	uint64_t released;     /* those whose slots may be overwritten */
	int *done;             /* [slots] images decoded */
	uint64_t failed;       /* the first image that failed, or NONE */
	struct mlr_error error;
};

static uint32_t file_of(const struct ring *r, uint64_t image)
{
	uint64_t batch = image / (uint64_t)r->o.rows, row = image % (uint64_t)r->o.rows;

	return r->order ? r->order[batch * r->stride + row] : r->first + (uint32_t)image;
}

/* Is there an image to decode, and a free slot for it? */
static int has_work(const struct ring *r)
{
	return r->failed == NONE && r->next < r->images &&
		r->next / (uint64_t)r->o.rows < r->released + (uint64_t)r->slots;
}

static int slot_of(const struct ring *r, uint64_t batch)
{
	return (int)(batch % (uint64_t)r->slots);
}

static uint8_t *slot_pixels(const struct ring *r, uint64_t batch)
{
	return r->pixels + (size_t)slot_of(r, batch) * (size_t)r->o.rows * r->image_bytes;
}

/* Decode the next image. The caller holds the lock, which is released meanwhile. */
static void decode_one(struct ring *r)
{
	uint64_t image = r->next++, batch = image / (uint64_t)r->o.rows;
	auto_free char *path = xasprintf("%s/%s", r->dir, r->files[file_of(r, image)].path);
	uint8_t *to = slot_pixels(r, batch) + image % (uint64_t)r->o.rows * r->image_bytes;
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
static int start_threads(struct ring *r, struct mlr_error *err)
{
	sigset_t all, was;
	int e = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	while (e == 0 && r->n_threads < r->o.threads && r->n_threads < THREADS_MAX) {
		e = pthread_create(&r->threads[r->n_threads], NULL, thread_main, r);
		r->n_threads += e == 0;
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (r->n_threads)
		return 0;
	return mlr_fail(err, e, "start a thread that decodes images: %s", strerror(e));
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

static int ring_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct ring **ret, struct mlr_error *err)
{
	auto_call(ring_close) struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->decoded, NULL);
	r->o = *o;
	r->dir = of->dir;
	r->files = set->files;
	r->size = (struct image_size){ of->channels, of->height, of->width };
	r->image_bytes = (size_t)of->channels * of->height * of->width;
	r->slots = 2 * o->ahead;
	r->failed = NONE;
	r->done = calloc((size_t)r->slots, sizeof(*r->done));
	r->pixels = calloc((size_t)r->slots * (size_t)o->rows, r->image_bytes);
	if (!r->done || !r->pixels)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for %d batches of images",
			(size_t)r->slots * (size_t)o->rows * r->image_bytes, r->slots);
	TRY(start_threads(r, err));
	*ret = take_ptr(&r);
	return 0;
}

/*
 * Start anew. Row k of batch b is the file order[b * stride + k]; if order is NULL, first + b *
 * rows + k. Pending batches are dropped.
 */
static void ring_start(
	struct ring *r, const uint32_t *order, size_t stride, uint32_t first, uint64_t images)
{
	pthread_mutex_lock(&r->lock);
	r->images = 0; /* begin no new image */
	while (r->busy)
		pthread_cond_wait(&r->decoded, &r->lock);
	r->order = order;
	r->stride = stride;
	r->first = first;
	r->images = images;
	r->next = r->taken = r->released = 0;
	r->failed = NONE;
	memset(r->done, 0, (size_t)r->slots * sizeof(*r->done));
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
}

static uint64_t batches(const struct ring *r)
{
	return (r->images + (uint64_t)r->o.rows - 1) / (uint64_t)r->o.rows;
}

static int is_ready(const struct ring *r)
{
	uint64_t left = r->images - r->taken * (uint64_t)r->o.rows;
	int rows = left < (uint64_t)r->o.rows ? (int)left : r->o.rows;

	return r->done[slot_of(r, r->taken)] == rows;
}

/* Images begin in order: once all threads are idle, no earlier image can fail. */
static int has_failed(const struct ring *r)
{
	return r->failed != NONE && !r->busy && !is_ready(r);
}

static void release_taken(struct ring *r)
{
	for (; r->released < r->taken; r->released++)
		r->done[slot_of(r, r->released)] = 0;
	pthread_cond_broadcast(&r->work);
}

/*
 * Wait for the next batch, and take up to max that are ready: ret [max] gets their pixels. The
 * error of the first failed file of the next batch repeats until ring_start().
 */
static int ring_take(struct ring *r, int max, const uint8_t **ret, struct mlr_error *err)
{
	int n = 0;

	pthread_mutex_lock(&r->lock);
	release_taken(r);
	while (r->taken < batches(r) && !is_ready(r) && !has_failed(r))
		pthread_cond_wait(&r->decoded, &r->lock);
	if (r->taken < batches(r) && !is_ready(r)) {
		n = -r->error.code;
		if (err)
			*err = r->error;
	}
	while (n >= 0 && n < max && r->taken < batches(r) && is_ready(r))
		ret[n++] = slot_pixels(r, r->taken++);
	pthread_mutex_unlock(&r->lock);
	return n;
}

struct loader {
	const struct image_set *set;
	struct ring *ring;       /* NULL: the set is in memory */
	const uint8_t **decoded; /* [ahead], the ring's batches */
	int rows, ahead;
	uint16_t *labels; /* [ahead][rows] */
	uint32_t *index;  /* [ahead][rows], for ranges */
	/* The arguments of loader_start(). */
	const uint32_t *order; /* NULL: a range */
	const struct augment *augment;
	size_t stride;
	uint32_t first;
	uint64_t images; /* in all batches of this rank */
	uint64_t taken;  /* batches handed out */
};

int loader_open(const struct image_set *set, const struct dataset *of,
	const struct loader_options *o, struct loader **ret, struct mlr_error *err)
{
	size_t cells = (size_t)o->ahead * (size_t)o->rows;
	auto_call(loader_close) struct loader *l = calloc(1, sizeof(*l));

	assert(o->rows > 0 && o->ahead > 0 && o->threads > 0);
	if (l) {
		l->labels = calloc(cells, sizeof(*l->labels));
		l->index = calloc(cells, sizeof(*l->index));
		l->decoded = calloc((size_t)o->ahead, sizeof(*l->decoded));
	}
	if (!l || !l->labels || !l->index || !l->decoded)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for batches",
			cells * (sizeof(*l->labels) + sizeof(*l->index)));
	l->set = set;
	l->rows = o->rows;
	l->ahead = o->ahead;
	if (!set->images && set->files)
		TRY(ring_open(set, of, o, &l->ring, err));
	*ret = take_ptr(&l);
	return 0;
}

void loader_close(struct loader **l)
{
	if (!*l)
		return;
	ring_close(&(*l)->ring);
	free((*l)->decoded);
	free((*l)->labels);
	free((*l)->index);
	free(*l);
	*l = NULL;
}

void loader_start(struct loader *l, const uint32_t *order, const struct augment *augment,
	size_t stride, uint64_t n)
{
	l->order = order;
	l->augment = augment;
	l->stride = stride;
	l->images = n * (uint64_t)l->rows;
	l->taken = 0;
	if (l->ring)
		ring_start(l->ring, order, stride, 0, l->images);
}

void loader_start_range(struct loader *l, uint32_t first, uint32_t count)
{
	assert(first <= l->set->count && count <= l->set->count - first);
	l->order = NULL;
	l->augment = NULL;
	l->first = first;
	l->images = count;
	l->taken = 0;
	if (l->ring)
		ring_start(l->ring, NULL, 0, first, count);
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

/* Take batches from the ring, whose images are in the batch's order. */
static int take_decoded(struct loader *l, int max, struct batch *ret, struct mlr_error *err)
{
	int n = ring_take(l->ring, max, l->decoded, err);

	for (int k = 0; k < n; k++) {
		fill(l, k, l->taken++, &ret[k]);
		ret[k].images = l->decoded[k];
		ret[k].index = NULL;
	}
	return n;
}

int loader_take(struct loader *l, int max, struct batch *ret, struct mlr_error *err)
{
	int n = 0;

	assert(max > 0 && max <= l->ahead);
	if (l->ring)
		return take_decoded(l, max, ret, err);
	for (; n < max && l->taken * (uint64_t)l->rows < l->images; n++)
		fill(l, n, l->taken++, &ret[n]);
	return n;
}
