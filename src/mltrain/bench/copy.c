#include "bench/copy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/rounds.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES ((size_t)128 << 20)
#define TIMES      3

struct copy {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int threads;     /* started */
	int ready, done; /* their numbers */
	int go;          /* 1: copy; -1: end without */
	size_t share;    /* bytes for each thread */
	char *from, *to;
};

struct worker {
	struct copy *copy;
	int me;
};

static void count(struct copy *c, int *which)
{
	pthread_mutex_lock(&c->lock);
	++*which;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static int wait_to_go(struct copy *c)
{
	int go;

	pthread_mutex_lock(&c->lock);
	while (!c->go)
		pthread_cond_wait(&c->changed, &c->lock);
	go = c->go;
	pthread_mutex_unlock(&c->lock);
	return go > 0;
}

/* Touch pages first in the thread that copies them, which places them near its core. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct copy *c = w->copy;
	char *from = c->from + (size_t)w->me * c->share, *to = c->to + (size_t)w->me * c->share;

	memset(from, 1, c->share);
	memset(to, 2, c->share);
	count(c, &c->ready);
	if (wait_to_go(c))
		for (int i = 0; i < TIMES; i++) {
			memcpy(to, from, c->share);
			__asm__ volatile(""
					 :
					 : "r"(to)
					 : "memory"); /* the compiler must not drop copies */
		}
	count(c, &c->done);
	return NULL;
}

/* Returns the seconds from the start signal to the last thread's end. */
static double let_go(struct copy *c, int go)
{
	double start;

	pthread_mutex_lock(&c->lock);
	while (c->ready < c->threads)
		pthread_cond_wait(&c->changed, &c->lock);
	start = mlr_now();
	c->go = go;
	pthread_cond_broadcast(&c->changed);
	while (c->done < c->threads)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return mlr_now() - start;
}

static int run(struct copy *c, int threads, double *seconds, struct mlr_error *err)
{
	auto_free pthread_t *thread = xcalloc((size_t)threads, sizeof(*thread));
	auto_free struct worker *worker = xcalloc((size_t)threads, sizeof(*worker));
	int failed = 0;

	while (c->threads < threads && !failed) {
		struct worker *w = &worker[c->threads];

		*w = (struct worker){ c, c->threads };
		failed = pthread_create(&thread[c->threads], NULL, work, w);
		c->threads += !failed;
	}
	*seconds = let_go(c, failed ? -1 : 1);
	for (int i = 0; i < c->threads; i++)
		pthread_join(thread[i], NULL);
	if (failed)
		return mlr_fail(err, failed, "start %d threads to copy memory: %s", threads,
			strerror(failed));
	return 0;
}

int copy_rate(int threads, double *ret, struct mlr_error *err)
{
	auto_free char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
	struct copy c = { .lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
		.share = COPY_BYTES / (size_t)threads,
		.from = from,
		.to = to };
	double seconds;
	int r;

	if (!from || !to)
		return mlr_fail(err, ENOMEM, "no memory to copy: %zu bytes", 2 * COPY_BYTES);
	r = run(&c, threads, &seconds, err);
	if (r < 0)
		return r;
	*ret = 2.0 * TIMES * (double)c.share * threads / seconds;
	return 0;
}
