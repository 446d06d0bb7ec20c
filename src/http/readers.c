/*
 * Threads that read what takes long: pictures and large bodies. The thread that speaks HTTP goes on
 * with all other connections meanwhile.
 */
#include "http/http.h"

struct http_readers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct http_reading *first, **last;
	int closing, n;
	pthread_t threads[];
};

static void *work(void *arg)
{
	struct http_readers *r = arg;

	pthread_mutex_lock(&r->lock);
	while (r->first || !r->closing) {
		struct http_reading *reading = r->first;

		if (!reading) {
			pthread_cond_wait(&r->more, &r->lock);
			continue;
		}
		r->first = reading->next;
		if (!r->first)
			r->last = &r->first;
		pthread_mutex_unlock(&r->lock);
		reading->run(reading);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int http_readers_open(int threads, struct http_readers **ret, struct mlr_error *err)
{
	struct http_readers *r = xcalloc(1, sizeof(*r) + (size_t)threads * sizeof(*r->threads));
	int failed = 0;

	r->last = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	while (!failed && r->n < threads) {
		failed = pthread_create(&r->threads[r->n], NULL, work, r);
		r->n += !failed;
	}
	*ret = r;
	if (!failed)
		return 0;
	http_readers_close(ret);
	return mlr_result(err, -failed, "start a thread to read bodies");
}

void http_readers_close(struct http_readers **readers)
{
	struct http_readers *r = *readers;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->closing = 1;
	pthread_cond_broadcast(&r->more);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n; i++)
		pthread_join(r->threads[i], NULL);
	pthread_cond_destroy(&r->more);
	pthread_mutex_destroy(&r->lock);
	free(r);
	*readers = NULL;
}

void http_readers_put(struct http_readers *r, struct http_reading *reading)
{
	reading->next = NULL;
	pthread_mutex_lock(&r->lock);
	*r->last = reading;
	r->last = &reading->next;
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
}
