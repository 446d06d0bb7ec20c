#include "data/decode.h"

#include "base/base.h"

#include <pthread.h>

#define THREADS_MAX 256

struct work {
	const char *dir;
	const struct image_file *files;
	uint32_t count;
	const struct image_size *size;
	uint8_t *to;
	pthread_mutex_t lock;
	uint32_t next;
	uint32_t failed; /* the first image that failed, or count */
	struct mlr_error error;
};

int decode_file(const char *dir, const struct image_file *file, const struct image_size *size,
	uint8_t *ret, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, file->path);

	return image_read(path, size, ret, err);
}

static void note_failure(struct work *w, uint32_t i, const struct mlr_error *err)
{
	pthread_mutex_lock(&w->lock);
	if (i < w->failed) {
		w->failed = i;
		w->error = *err;
	}
	pthread_mutex_unlock(&w->lock);
}

/* Take the next image to decode, or count. Images are taken in order, so all before a failed one
 * are decoded. */
static uint32_t take(struct work *w)
{
	uint32_t i;

	pthread_mutex_lock(&w->lock);
	i = w->failed < w->count ? w->count : w->next;
	if (i < w->count)
		w->next++;
	pthread_mutex_unlock(&w->lock);
	return i;
}

static void *decode_some(void *arg)
{
	struct work *w = arg;
	size_t bytes = image_size_bytes(w->size);
	uint32_t i;

	while ((i = take(w)) < w->count) {
		struct mlr_error err = MLR_ERROR_INIT;

		if (decode_file(w->dir, &w->files[i], w->size, w->to + i * bytes, &err) < 0)
			note_failure(w, i, &err);
	}
	return NULL;
}

int decode_files(const char *dir, const struct image_file *files, uint32_t count,
	const struct image_size *size, int threads, uint8_t *ret, struct mlr_error *err)
{
	struct work w = { dir, files, count, size, ret, PTHREAD_MUTEX_INITIALIZER, 0, count,
		MLR_ERROR_INIT };
	pthread_t others[THREADS_MAX];
	sigset_t all, was;
	int n = 0;

	/* Only the caller handles signals. If a thread cannot start, the others do the work. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	while (n < THREADS_MAX && n + 1 < threads && (uint32_t)n + 1 < count &&
		pthread_create(&others[n], NULL, decode_some, &w) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	decode_some(&w);
	for (int i = 0; i < n; i++)
		pthread_join(others[i], NULL);
	if (w.failed == count)
		return 0;
	if (err)
		*err = w.error;
	return -w.error.code;
}
