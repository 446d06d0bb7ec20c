/*
 * Computes what waits, several requests' images in one batch, in one thread. A request waits while
 * a batch is being computed; when none is, at most the delay wished for.
 */
#include "serve/server.h"

#define PARTS_MAX 1024 /* requests in a batch: as many as a batch has images */

struct share {
	struct serve_job *job;
	int from, rows;
};

struct serve_queue {
	struct serve_queue_wish wish;
	struct serve_counts *counts;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct serve_job *first, **last;
	int waiting; /* images */
	int closing;

	/* The thread's own. */
	struct share parts[PARTS_MAX];
	uint8_t *images;
	float *logits;
	size_t images_room, logits_room;
};

/* Wait, with the lock held, until there is a batch to compute. Returns 0 at the end. */
static int wait_for_batch(struct serve_queue *q)
{
	double end;

	while (!q->first && !q->closing)
		pthread_cond_wait(&q->more, &q->lock);
	if (!q->first)
		return 0;
	end = q->first->since + q->wish.delay;
	while (q->waiting < q->wish.batch && q->wish.delay > 0 && !q->closing &&
		mlr_cond_wait_until(&q->more, &q->lock, end) == 0)
		;
	return 1;
}

/* Take a batch of the oldest job's model, with the lock held. A job that is taken whole leaves the
 * list; only the batch's last one can be left with a rest. */
static int take_batch(struct serve_queue *q, int *ret_rows)
{
	struct serve_model *model = q->first->model;
	struct serve_job **at = &q->first;
	int n = 0, rows = 0;

	q->last = &q->first;
	while (*at) {
		struct serve_job *job = *at;
		int left = job->rows - job->taken, room = q->wish.batch - rows;

		if (job->model == model && room > 0 && n < PARTS_MAX) {
			int take = left < room ? left : room;

			q->parts[n++] = (struct share){ job, job->taken, take };
			job->taken += take;
			rows += take;
			if (take == left) {
				*at = job->next;
				continue;
			}
		}
		at = &job->next;
	}
	q->last = at;
	q->waiting -= rows;
	*ret_rows = rows;
	return n;
}

static int reserve(void *block, size_t *room, size_t size)
{
	void **p = block;

	if (size <= *room)
		return 0;
	free(*p);
	*p = malloc(size);
	*room = *p ? size : 0;
	return *p ? 0 : -ENOMEM;
}

/* Predict a batch. The images of a single job are read in place, and its logits written there. */
static int compute(struct serve_queue *q, int n, int rows)
{
	struct serve_model *model = q->parts[0].job->model;
	size_t pixels = model->pixels, row = (size_t)model->classes * sizeof(float);
	const struct share *only = n == 1 ? q->parts : NULL;
	struct batch batch = { .rows = rows };
	struct mlr_error err = MLR_ERROR_INIT;
	float *logits;
	int r;

	if (only) {
		batch.images = only->job->images + (size_t)only->from * pixels;
		logits = only->job->logits + (size_t)only->from * (size_t)model->classes;
		return engine_predict(serve_model_engine(model, rows), &batch, logits, &err);
	}
	if (reserve(&q->images, &q->images_room, (size_t)rows * pixels) < 0 ||
		reserve(&q->logits, &q->logits_room, (size_t)rows * row) < 0)
		return -ENOMEM;
	for (int i = 0, at = 0; i < n; at += q->parts[i++].rows)
		memcpy(q->images + (size_t)at * pixels,
			q->parts[i].job->images + (size_t)q->parts[i].from * pixels,
			(size_t)q->parts[i].rows * pixels);
	batch.images = q->images;
	r = engine_predict(serve_model_engine(model, rows), &batch, q->logits, &err);
	for (int i = 0, at = 0; r == 0 && i < n; at += q->parts[i++].rows)
		memcpy(q->parts[i].job->logits + (size_t)q->parts[i].from * (size_t)model->classes,
			q->logits + (size_t)at * (size_t)model->classes,
			(size_t)q->parts[i].rows * row);
	return r;
}

static void *work(void *arg)
{
	struct serve_queue *q = arg;

	pthread_mutex_lock(&q->lock);
	while (wait_for_batch(q)) {
		int rows, n = take_batch(q, &rows), r;

		pthread_mutex_unlock(&q->lock);
		atomic_fetch_add_explicit(&q->counts->queued, -rows, memory_order_relaxed);
		serve_counts_batch(q->counts, rows);
		r = compute(q, n, rows);
		for (int i = 0; i < n; i++) {
			struct serve_job *job = q->parts[i].job;

			if (r < 0)
				job->failed = -r;
			if (q->parts[i].from + q->parts[i].rows == job->rows)
				job->done(job); /* gone from here on */
		}
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

int serve_queue_open(const struct serve_queue_wish *wish, struct serve_counts *counts,
	struct serve_queue **ret, struct mlr_error *err)
{
	struct serve_queue *q = xcalloc(1, sizeof(*q));
	int r;

	q->wish = *wish;
	q->counts = counts;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	r = pthread_create(&q->thread, NULL, work, q);
	if (r != 0) {
		free(q);
		return mlr_result(err, -r, "start a thread to compute");
	}
	*ret = q;
	return 0;
}

void serve_queue_hurry(struct serve_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->wish.delay = 0;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
}

void serve_queue_close(struct serve_queue **queue)
{
	struct serve_queue *q = *queue;

	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	q->closing = 1;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
	free(q->images);
	free(q->logits);
	free(q);
	*queue = NULL;
}

int serve_queue_put(struct serve_queue *q, struct serve_job *job)
{
	int r = 0;

	job->next = NULL;
	job->taken = job->failed = 0;
	job->since = mlr_now();
	pthread_mutex_lock(&q->lock);
	if (q->closing || q->waiting + job->rows > q->wish.most) {
		r = -EBUSY;
	} else {
		*q->last = job;
		q->last = &job->next;
		q->waiting += job->rows;
		atomic_fetch_add_explicit(&q->counts->queued, job->rows, memory_order_relaxed);
		pthread_cond_signal(&q->more);
	}
	pthread_mutex_unlock(&q->lock);
	return r;
}
