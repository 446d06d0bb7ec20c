#include "bench/throughput.h"

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct spread roofline_spread(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return (struct spread){ n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v[0], v[n - 1] };
}

/* --- the speed at which several threads copy memory together --- */

#define COPY_BYTES ((size_t)128 << 20)

struct copy {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int threads;  /* started */
	int ready;    /* threads, once at first and once after each copy */
	int go;       /* the number of the copy to make, from 1; -1: end */
	size_t share; /* bytes for each thread */
	char *from, *to;
};

struct worker {
	struct copy *copy;
	int me;
};

/* Tell that this thread is ready for the given copy. Returns 0 if there is none. */
static int wait_to_go(struct copy *c, int number)
{
	int go;

	pthread_mutex_lock(&c->lock);
	c->ready++;
	pthread_cond_broadcast(&c->changed);
	while (c->go >= 0 && c->go < number)
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
	for (int i = 1; wait_to_go(c, i); i++) {
		memcpy(to, from, c->share);
		__asm__ volatile("" : : "r"(to) : "memory"); /* the compiler must not drop copies */
	}
	return NULL;
}

/* Have all threads, once they are ready, make a copy, or end. */
static void let_go(struct copy *c, int go)
{
	pthread_mutex_lock(&c->lock);
	while (c->ready < c->threads)
		pthread_cond_wait(&c->changed, &c->lock);
	c->ready = 0;
	c->go = go;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* Returns the seconds from the start signal to the last thread's end. */
static double one_copy(struct copy *c, int number)
{
	double start;

	let_go(c, number);
	start = mlr_now();
	pthread_mutex_lock(&c->lock);
	while (c->ready < c->threads)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return mlr_now() - start;
}

static int run(struct copy *c, int threads, int n, double *ret, struct mlr_error *err)
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
	for (int i = 0; i < n && !failed; i++)
		ret[i] = 2.0 * (double)c->share * threads / one_copy(c, i + 1);
	let_go(c, -1);
	for (int i = 0; i < c->threads; i++)
		pthread_join(thread[i], NULL);
	if (failed)
		return mlr_fail(err, failed, "start %d threads to copy memory: %s", threads,
			strerror(failed));
	return 0;
}

/* Time a copy of 128 MiB by threads n times; ret [n] gets bytes per second, read plus written. */
static int copy_rate(int threads, int n, double *ret, struct mlr_error *err)
{
	auto_free char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
	struct copy c = { .lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
		.share = COPY_BYTES / (size_t)threads,
		.from = from,
		.to = to };

	if (!from || !to)
		return mlr_fail(err, ENOMEM, "no memory to copy: %zu bytes", 2 * COPY_BYTES);
	return run(&c, threads, n, ret, err);
}

/* --- ceilings --- */

int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err)
{
	struct engine_ceiling c[ROUNDS] = { { 0 } };
	double product[ROUNDS], copy[ROUNDS];

	if (e->backend->ceiling)
		TRY(e->backend->ceiling(e, ROUNDS, c, err));
	if (c[0].bytes == 0)
		TRY(copy_rate(e->threads > 0 ? e->threads : 1, ROUNDS, copy, err));
	for (int i = 0; i < ROUNDS; i++) {
		product[i] = c[i].flops_seconds > 0 ? c[i].flops / c[i].flops_seconds : 0;
		if (c[i].bytes > 0)
			copy[i] = c[i].bytes / c[i].bytes_seconds;
	}
	*ret = (struct roofline){ e->backend->ceiling != NULL, roofline_spread(product, ROUNDS),
		roofline_spread(copy, ROUNDS) };
	return 0;
}

enum roofline_bound roofline_seconds(
	const struct roofline *r, double flops, double bytes, double *ret)
{
	double product, copy;

	*ret = 0;
	if (!r->has_product)
		return BOUND_NONE;
	product = flops / r->product.median;
	copy = bytes / r->copy.median;
	*ret = product > copy ? product : copy;
	return product > copy ? BOUND_PRODUCT : BOUND_COPY;
}
