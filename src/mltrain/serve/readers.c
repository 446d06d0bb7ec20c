/*
 * Threads that read what takes long: pictures and large bodies. The thread that speaks HTTP goes on
 * with all other connections meanwhile.
 */
#include "serve/server.h"

struct serve_readers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct serve_reading *first, **last;
	int closing, n;
	pthread_t threads[];
};

static void *work(void *arg)
{
	struct serve_readers *r = arg;

	pthread_mutex_lock(&r->lock);
	while (r->first || !r->closing) {
		struct serve_reading *reading = r->first;

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

int serve_readers_open(int threads, struct serve_readers **ret, struct mlr_error *err)
{
	struct serve_readers *r = xcalloc(1, sizeof(*r) + (size_t)threads * sizeof(*r->threads));
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
	serve_readers_close(ret);
	return mlr_result(err, -failed, "start a thread to read bodies");
}

void serve_readers_close(struct serve_readers **readers)
{
	struct serve_readers *r = *readers;

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

void serve_readers_put(struct serve_readers *r, struct serve_reading *reading)
{
	reading->next = NULL;
	pthread_mutex_lock(&r->lock);
	*r->last = reading;
	r->last = &reading->next;
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
}
