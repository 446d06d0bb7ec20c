#include "squashfs/server_blocks.h"

#include <sys/mman.h>
#include <sys/queue.h>

#define BUCKETS   256
#define SLOTS_MIN 4

enum state { EMPTY, LOADING, READY, FAILED };

struct entry {
	struct block block; /* must be first: callers have a pointer to it */
	uint64_t pos;
	uint32_t header;
	enum state state;
	int users;
	int error;
	int is_extra;            /* beyond the slots: freed with its last user */
	LIST_ENTRY(entry) chain; /* unless EMPTY */
	TAILQ_ENTRY(entry) age;  /* while it has no users */
};

struct blocks {
	const struct image *image;
	pthread_mutex_t lock;
	pthread_cond_t loaded;
	LIST_HEAD(, entry) buckets[BUCKETS];
	TAILQ_HEAD(, entry) idle; /* entries without users, least recently used first */
	char *memory;
	size_t n;
	struct entry slots[];
};

struct blocks *blocks_new(const struct image *im, size_t max)
{
	size_t block = image_block_size(im), n = max / block > SLOTS_MIN ? max / block : SLOTS_MIN;
	struct blocks *b = calloc(1, sizeof(*b) + n * sizeof(struct entry));

	if (!b)
		return NULL;
	/* One mapping, populated on use, with large pages if possible. */
	b->memory = mmap(NULL, n * block, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->memory == MAP_FAILED) {
		free(b);
		return NULL;
	}
	madvise(b->memory, n * block, MADV_HUGEPAGE);
	b->image = im;
	b->n = n;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->loaded, NULL);
	for (size_t i = 0; i < BUCKETS; i++)
		LIST_INIT(&b->buckets[i]);
	TAILQ_INIT(&b->idle);
	for (size_t i = 0; i < n; i++) {
		b->slots[i].block.data = b->memory + i * block;
		TAILQ_INSERT_TAIL(&b->idle, &b->slots[i], age);
	}
	return b;
}

void blocks_free(struct blocks *b)
{
	if (!b)
		return;
	munmap(b->memory, b->n * image_block_size(b->image));
	pthread_cond_destroy(&b->loaded);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static size_t bucket_of(uint64_t pos)
{
	return (size_t)((pos * 0x9e3779b97f4a7c15u) >> 56) % BUCKETS;
}

static struct entry *look_up(struct blocks *b, const struct image_piece *p)
{
	struct entry *e;

	LIST_FOREACH(e, &b->buckets[bucket_of(p->pos)], chain)
	if (e->pos == p->pos && e->header == p->header)
		return e;
	return NULL;
}

/* Get an entry for a block, with one user. */
static struct entry *take_room(struct blocks *b)
{
	struct entry *e = TAILQ_FIRST(&b->idle);

	if (e) {
		TAILQ_REMOVE(&b->idle, e, age);
		if (e->state != EMPTY)
			LIST_REMOVE(e, chain);
	} else {
		e = calloc(1, sizeof(*e) + image_block_size(b->image));
		if (!e)
			return NULL;
		e->block.data = (char *)(e + 1);
		e->is_extra = 1;
	}
	e->users = 1;
	e->state = EMPTY;
	return e;
}

/* Drop one user of a block. If reading it failed, the next user retries. */
static void release(struct blocks *b, struct entry *e)
{
	if (--e->users > 0)
		return;
	if (e->state == FAILED || e->is_extra) {
		LIST_REMOVE(e, chain);
		e->state = EMPTY;
	}
	if (e->is_extra)
		free(e);
	else if (e->state == EMPTY)
		TAILQ_INSERT_HEAD(&b->idle, e, age);
	else
		TAILQ_INSERT_TAIL(&b->idle, e, age);
}

/* Read a block that is not cached. Drops the lock meanwhile. */
static struct entry *load(struct blocks *b, const struct image_piece *p)
{
	struct entry *e = take_room(b);
	ssize_t n;

	if (!e)
		return NULL;
	e->pos = p->pos;
	e->header = p->header;
	e->state = LOADING;
	LIST_INSERT_HEAD(&b->buckets[bucket_of(p->pos)], e, chain);

	pthread_mutex_unlock(&b->lock);
	n = image_block(b->image, p->pos, p->header, e->block.data);
	pthread_mutex_lock(&b->lock);

	e->state = n < 0 ? FAILED : READY;
	e->error = n < 0 ? (int)n : 0;
	e->block.size = n < 0 ? 0 : (size_t)n;
	pthread_cond_broadcast(&b->loaded);
	return e;
}

int blocks_get(struct blocks *b, const struct image_piece *p, const struct block **ret)
{
	struct entry *e;
	int r;

	pthread_mutex_lock(&b->lock);
	e = look_up(b, p);
	if (!e) {
		e = load(b, p);
	} else {
		if (e->users++ == 0)
			TAILQ_REMOVE(&b->idle, e, age);
		while (e->state == LOADING)
			pthread_cond_wait(&b->loaded, &b->lock);
	}
	r = !e ? -ENOMEM : e->error;
	/* A damaged image: the block is shorter than the file's part of it. */
	if (r == 0 && (uint64_t)p->from + p->len > e->block.size)
		r = -EIO;
	if (r == 0)
		*ret = &e->block;
	else if (e)
		release(b, e);
	pthread_mutex_unlock(&b->lock);
	return r;
}

void blocks_put(struct blocks *b, const struct block *block)
{
	pthread_mutex_lock(&b->lock);
	release(b, (struct entry *)(uintptr_t)block);
	pthread_mutex_unlock(&b->lock);
}

int blocks_expect(struct blocks *b, const struct image_piece *p)
{
	struct entry *e;

	pthread_mutex_lock(&b->lock);
	e = look_up(b, p) ? NULL : load(b, p);
	if (e)
		release(b, e);
	pthread_mutex_unlock(&b->lock);
	return e != NULL;
}
