#include "data/ring.h"

#include "base/base.h"

#include <assert.h>
#include <pthread.h>

#define THREADS_MAX 256
#define NONE        UINT64_MAX

struct ring {
	struct ring_options o;
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
	const struct image_file *file = &r->o.files[file_of(r, image)];
	uint8_t *to = slot_pixels(r, batch) + image % (uint64_t)r->o.rows * r->image_bytes;
	struct mlr_error err = MLR_ERROR_INIT;
	int e;

	r->busy++;
	pthread_mutex_unlock(&r->lock);
	e = decode_file(r->o.dir, file, &r->o.size, to, &err);
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

int ring_open(const struct ring_options *o, struct ring **ret, struct mlr_error *err)
{
	auto_call(ring_close) struct ring *r = calloc(1, sizeof(*r));
	size_t bytes = image_size_bytes(&o->size);

	assert(o->rows > 0 && o->ahead > 0 && o->threads > 0);
	if (!r)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->decoded, NULL);
	r->o = *o;
	r->image_bytes = bytes;
	r->slots = 2 * o->ahead;
	r->failed = NONE;
	r->done = calloc((size_t)r->slots, sizeof(*r->done));
	r->pixels = calloc((size_t)r->slots * (size_t)o->rows, bytes);
	if (!r->done || !r->pixels)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for %d batches of images",
			(size_t)r->slots * (size_t)o->rows * bytes, r->slots);
	TRY(start_threads(r, err));
	*ret = take_ptr(&r);
	return 0;
}

void ring_close(struct ring **ring)
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

void ring_start(
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

int ring_take(struct ring *r, int max, const uint8_t **ret, struct mlr_error *err)
{
	int n = 0;

	assert(max > 0 && max <= r->o.ahead);
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
