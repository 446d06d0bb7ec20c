#include "export/packer.h"

#include "base/base.h"
#include "base/processors.h"
#include "base/wait.h"

#include <pthread.h>

#define THREADS_MAX 4
#define TICK_MS     100

struct packed {
	int is_done, result;
	struct pack pack;
	struct mlr_error err;
};

struct packer {
	struct store *st;
	const struct strv *diff_ids;
	enum oci_compression how;
	const int *cancel;
	pthread_t threads[THREADS_MAX];
	size_t n_threads;
	int stop;             /* atomic: stops the threads in their layers as well */
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	size_t next, out;      /* the next to pack; the next to return */
	struct packed *layers; /* one for each diff ID */
};

/* The next layer to pack, or n if there is none; waits while enough packed layers wait. */
static size_t take_next(struct packer *p)
{
	size_t i;

	pthread_mutex_lock(&p->lock);
	while (!p->stop && p->next < p->diff_ids->n && p->next >= p->out + 2 * THREADS_MAX)
		pthread_cond_wait(&p->changed, &p->lock);
	i = p->stop || p->next == p->diff_ids->n ? p->diff_ids->n : p->next++;
	pthread_mutex_unlock(&p->lock);
	return i;
}

static void *thread_main(void *ctx)
{
	struct packer *p = ctx;
	size_t i;

	while ((i = take_next(p)) < p->diff_ids->n) {
		struct packed *l = &p->layers[i];
		struct pack pack = PACK_INIT;
		int r = pack_layer(
			p->st, p->diff_ids->v[i], p->how, &p->stop, NULL, &pack, &l->err);

		pthread_mutex_lock(&p->lock);
		l->pack = pack;
		l->result = r;
		l->is_done = 1;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static size_t count_threads(size_t layers)
{
	size_t n = processors_count();

	if (n > THREADS_MAX)
		n = THREADS_MAX;
	return n < layers ? n : layers;
}

int packer_new(struct store *st, const struct strv *diff_ids, enum oci_compression how,
	const int *cancel, struct packer **ret, struct mlr_error *err)
{
	struct packer *p = xcalloc(1, sizeof(*p));
	size_t want = count_threads(diff_ids->n);
	int r = 0;

	*p = (struct packer){ .st = st, .diff_ids = diff_ids, .how = how, .cancel = cancel };
	p->layers = xcalloc(diff_ids->n + 1, sizeof(*p->layers));
	for (size_t i = 0; i < diff_ids->n; i++)
		p->layers[i].pack = (struct pack)PACK_INIT;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	while (p->n_threads < want && r == 0) {
		r = pthread_create(&p->threads[p->n_threads], NULL, thread_main, p);
		p->n_threads += r == 0;
	}
	if (p->n_threads == 0 && want > 0) {
		packer_free(p);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	*ret = p;
	return 0;
}

static int is_cancelled(const struct packer *p)
{
	return p->cancel && __atomic_load_n(p->cancel, __ATOMIC_RELAXED);
}

int packer_next(struct packer *p, struct pack *ret, struct mlr_error *err)
{
	struct packed *l = &p->layers[p->out];

	pthread_mutex_lock(&p->lock);
	while (!l->is_done && !is_cancelled(p))
		mlr_cond_wait_ms(&p->changed, &p->lock, TICK_MS);
	p->out++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);

	if (is_cancelled(p))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (l->result < 0) {
		if (err)
			*err = l->err;
		return l->result;
	}
	*ret = l->pack;
	l->pack = (struct pack)PACK_INIT;
	return 0;
}

void packer_free(struct packer *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	for (size_t i = 0; i < p->diff_ids->n; i++)
		pack_done(&p->layers[i].pack);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p->layers);
	free(p);
}
