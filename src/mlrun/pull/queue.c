#include "pull/queue.h"

/* A ring buffer. Each thread copies without the lock: the bytes between head and tail belong to the
 * reader, and the rest to the writer. */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *ring;
	uint64_t head, tail; /* total bytes read and written */
	int ended, left;
	int result; /* the writer's, once ended */
	struct mlr_error err;
};

int queue_new(struct queue **ret, struct mlr_error *err)
{
	char *ring = malloc(QUEUE_BYTES);
	struct queue *q;

	if (!ring)
		return mlr_fail(err, ENOMEM, "no memory for a buffer of %u bytes", QUEUE_BYTES);
	q = xcalloc(1, sizeof(*q));
	q->ring = ring;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	*ret = q;
	return 0;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	free(q->ring);
	free(q);
}

/* The contiguous part of the ring from a position on, of at most len bytes. */
static size_t run_at(uint64_t at, size_t len)
{
	size_t left = QUEUE_BYTES - (size_t)(at % QUEUE_BYTES);

	return len < left ? len : left;
}

/* Wait for room. Returns its size, or 0 if the reader has left. */
static size_t wait_room(struct queue *q)
{
	size_t room;

	pthread_mutex_lock(&q->lock);
	while (!q->left && q->tail - q->head == QUEUE_BYTES)
		pthread_cond_wait(&q->changed, &q->lock);
	room = q->left ? 0 : QUEUE_BYTES - (size_t)(q->tail - q->head);
	pthread_mutex_unlock(&q->lock);
	return room;
}

/* Wait for `want` bytes or the end. Returns how many there are. */
static size_t wait_bytes(struct queue *q, size_t want)
{
	size_t there;

	pthread_mutex_lock(&q->lock);
	while (!q->ended && q->tail - q->head < want)
		pthread_cond_wait(&q->changed, &q->lock);
	there = (size_t)(q->tail - q->head);
	pthread_mutex_unlock(&q->lock);
	return there;
}

static void advance(struct queue *q, uint64_t *position, size_t n)
{
	pthread_mutex_lock(&q->lock);
	*position += n;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

int queue_put(void *queue, const void *buf, size_t len, struct mlr_error *err)
{
	struct queue *q = queue;
	const char *p = buf;

	while (len > 0) {
		size_t n = wait_room(q);

		if (n == 0)
			return mlr_fail(err, EPIPE, "the reader has left");
		n = run_at(q->tail, len < n ? len : n);
		memcpy(q->ring + q->tail % QUEUE_BYTES, p, n);
		advance(q, &q->tail, n);
		p += n;
		len -= n;
	}
	return 0;
}

void queue_end(struct queue *q, int result, const struct mlr_error *err)
{
	pthread_mutex_lock(&q->lock);
	q->ended = 1;
	q->result = result;
	if (result < 0)
		q->err = *err;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

ssize_t queue_get(void *queue, void *buf, size_t len, struct mlr_error *err)
{
	struct queue *q = queue;
	size_t n = wait_bytes(q, 1);

	if (n == 0) {
		if (q->result < 0 && err)
			*err = q->err;
		return q->result;
	}
	n = run_at(q->head, len < n ? len : n);
	memcpy(buf, q->ring + q->head % QUEUE_BYTES, n);
	advance(q, &q->head, n);
	return (ssize_t)n;
}

size_t queue_peek(struct queue *q, void *buf, size_t len)
{
	size_t n = wait_bytes(q, len);

	n = len < n ? len : n;
	memcpy(buf, q->ring, n);
	return n;
}

void queue_leave(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->left = 1;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}
