#include "layer/blocks.h"

#include "base/machine.h"

#define THREADS_MAX 7 /* beside the caller's */

struct block {
	enum { EMPTY, WAITING, TAKEN, DONE } at;
	unsigned char *in, *out;
	size_t in_len, out_len;
};

struct blocks {
	struct layer_deflate base;
	const struct layer_block_ops *ops;
	void *state;     /* the caller's */
	struct block *v; /* a ring of n */
	size_t n;
	uint64_t written, filled; /* blocks so far; the block at filled is being filled */
	pthread_t threads[THREADS_MAX];
	size_t n_threads;
	int started;
	pthread_mutex_t lock; /* guards blocks' "at", taken and stop */
	pthread_cond_t changed;
	uint64_t taken; /* blocks that somebody has begun to compress */
	int stop;
};

static struct block *block_at(struct blocks *b, uint64_t i)
{
	return &b->v[i % b->n];
}

static void compress(struct blocks *b, struct block *k, void *state)
{
	k->out_len = b->ops->compress(state, k->in, k->in_len, k->out);
}

/* Begin the next block that waits, with the lock held; NULL if none does. */
static struct block *take(struct blocks *b)
{
	struct block *k = block_at(b, b->taken);

	if (k->at != WAITING)
		return NULL;
	k->at = TAKEN;
	b->taken++;
	return k;
}

/* Compress what was taken; the lock is held before and after. */
static void work_on(struct blocks *b, struct block *k, void *state)
{
	pthread_mutex_unlock(&b->lock);
	compress(b, k, state);
	pthread_mutex_lock(&b->lock);
	k->at = DONE;
	pthread_cond_broadcast(&b->changed);
}

static void *thread_main(void *ctx)
{
	struct blocks *b = ctx;
	void *state = b->ops->state_new();

	pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		struct block *k = take(b);

		if (k)
			work_on(b, k, state);
		else
			pthread_cond_wait(&b->changed, &b->lock);
	}
	pthread_mutex_unlock(&b->lock);
	b->ops->state_free(state);
	return NULL;
}

/* A thread that does not start is one less. */
static void start(struct blocks *b)
{
	b->started = 1;
	while (b->n_threads < b->n / 2 - 1 &&
		pthread_create(&b->threads[b->n_threads], NULL, thread_main, b) == 0)
		b->n_threads++;
}

/* Hand the filled block over. */
static void submit(struct blocks *b)
{
	struct block *k = block_at(b, b->filled);

	if (b->filled > 0 && !b->started)
		start(b);
	pthread_mutex_lock(&b->lock);
	k->at = WAITING;
	b->filled++;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

/* Wait for the oldest block, and compress meanwhile what waits. */
static void await_oldest(struct blocks *b)
{
	const struct block *oldest = block_at(b, b->written);

	pthread_mutex_lock(&b->lock);
	while (oldest->at != DONE) {
		struct block *k = take(b);

		if (k)
			work_on(b, k, b->state);
		else
			pthread_cond_wait(&b->changed, &b->lock);
	}
	pthread_mutex_unlock(&b->lock);
}

static int write_oldest(struct blocks *b, layer_write_fn write, void *ctx, struct mlr_error *err)
{
	struct block *k = block_at(b, b->written);
	int r;

	await_oldest(b);
	r = write(ctx, k->out, k->out_len, err);
	k->at = EMPTY; /* no thread looks at a block that is done */
	k->in_len = 0;
	b->written++;
	return r;
}

static int is_done(struct blocks *b)
{
	int done;

	pthread_mutex_lock(&b->lock);
	done = b->written < b->filled && block_at(b, b->written)->at == DONE;
	pthread_mutex_unlock(&b->lock);
	return done;
}

/* Submit the full block; then write what is done, and at least one block if the ring is full. */
static int pass_on(struct blocks *b, layer_write_fn write, void *ctx, struct mlr_error *err)
{
	int r = 0;

	submit(b);
	while (r == 0 && (b->filled - b->written == b->n || is_done(b)))
		r = write_oldest(b, write, ctx, err);
	return r;
}

static int blocks_run(struct layer_deflate *base, const void *buf, size_t len, int end,
	layer_write_fn write, void *ctx, struct mlr_error *err)
{
	struct blocks *b = (struct blocks *)base;
	int r = 0;

	for (const char *p = buf; r == 0 && len > 0;) {
		struct block *k = block_at(b, b->filled);
		size_t n = LAYER_BLOCK - k->in_len < len ? LAYER_BLOCK - k->in_len : len;

		memcpy(k->in + k->in_len, p, n);
		k->in_len += n;
		p += n;
		len -= n;
		if (k->in_len == LAYER_BLOCK)
			r = pass_on(b, write, ctx, err);
	}
	if (!end || r < 0)
		return r;
	if (block_at(b, b->filled)->in_len > 0 || b->filled == 0)
		submit(b);
	while (r == 0 && b->written < b->filled)
		r = write_oldest(b, write, ctx, err);
	return r;
}

static void blocks_free(struct layer_deflate *base)
{
	struct blocks *b = (struct blocks *)base;

	pthread_mutex_lock(&b->lock);
	b->stop = 1;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	for (size_t i = 0; i < b->n_threads; i++)
		pthread_join(b->threads[i], NULL);
	for (size_t i = 0; i < b->n; i++) {
		free(b->v[i].in);
		free(b->v[i].out);
	}
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	b->ops->state_free(b->state);
	free(b->v);
	free(b);
}

size_t layer_blocks_cores(void)
{
	size_t n = processors_count();

	return n > THREADS_MAX + 1 ? THREADS_MAX + 1 : n;
}

struct layer_deflate *layer_blocks_new(const struct layer_block_ops *ops)
{
	static const struct layer_deflate_ops deflate = { blocks_run, blocks_free };
	struct blocks *b = xcalloc(1, sizeof(*b));

	b->base.ops = &deflate;
	b->ops = ops;
	b->state = ops->state_new();
	b->n = 2 * layer_blocks_cores();
	b->v = xcalloc(b->n, sizeof(*b->v));
	for (size_t i = 0; i < b->n; i++) {
		b->v[i].in = xmalloc(LAYER_BLOCK);
		b->v[i].out = xmalloc(ops->room);
	}
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	return &b->base;
}
