#include "serve/cache.h"

#include "base/config_value.h"
#include "config.h"

/* --- a cache in this process: a table of lists, and a list of all in the order of their use --- */

#define SIZE_MIN ((uint64_t)1 << 16)
#define SIZE_TOP ((uint64_t)1 << 40)
#define SLOT     4096 /* bytes of the cache for each list of the table */

struct kept {
	struct kept *next;          /* in its list */
	struct kept *newer, *older; /* by use */
	int64_t end_ms;
	size_t size;
	char key[HASH_HEX_SIZE];
	float logits[];
};

struct memory_cache {
	struct serve_cache cache; /* first */
	pthread_mutex_t lock;
	struct kept **table; /* [slots], a power of two */
	size_t slots;
	size_t used, most; /* bytes */
	struct kept *newest, *oldest;
};

static int open_cache(const char *where, struct serve_cache **ret, struct mlr_error *err)
{
	struct memory_cache *c;
	uint64_t most;

	if (config_bytes(where, &most) < 0 || most < SIZE_MIN || most > SIZE_TOP)
		return mlr_fail(
			err, EINVAL, "'%s' is not a size from 64k, such as 64m or 1g", where);
	c = xcalloc(1, sizeof(*c));
	c->most = (size_t)most;
	for (c->slots = 16; c->slots < c->most / SLOT; c->slots *= 2)
		;
	c->table = xcalloc(c->slots, sizeof(*c->table));
	pthread_mutex_init(&c->lock, NULL);
	*ret = &c->cache;
	return 0;
}

static struct memory_cache *own(struct serve_cache *c)
{
	return (struct memory_cache *)c;
}

/* A digest's digits are as good as any hash. */
static struct kept **list_of(struct memory_cache *c, const char *key)
{
	char head[9] = { 0 };

	memcpy(head, key, 8);
	return &c->table[strtoul(head, NULL, 16) & (c->slots - 1)];
}

static struct kept **find(struct memory_cache *c, const char *key)
{
	struct kept **at = list_of(c, key);

	while (*at && memcmp((*at)->key, key, HASH_HEX_SIZE) != 0)
		at = &(*at)->next;
	return at;
}

static void unlink_use(struct memory_cache *c, struct kept *k)
{
	*(k->newer ? &k->newer->older : &c->newest) = k->older;
	*(k->older ? &k->older->newer : &c->oldest) = k->newer;
}

static void link_use(struct memory_cache *c, struct kept *k)
{
	k->newer = NULL;
	k->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = k;
	c->newest = k;
}

static void drop(struct memory_cache *c, struct kept **at)
{
	struct kept *k = *at;

	*at = k->next;
	unlink_use(c, k);
	c->used -= sizeof(*k) + k->size;
	free(k);
}

static void close_cache(struct serve_cache *cache)
{
	struct memory_cache *c = own(cache);

	while (c->oldest)
		drop(c, find(c, c->oldest->key));
	pthread_mutex_destroy(&c->lock);
	free(c->table);
	free(c);
}

static void get(struct serve_cache *cache, struct serve_lookup *lookup)
{
	struct memory_cache *c = own(cache);
	struct kept **at;

	pthread_mutex_lock(&c->lock);
	at = find(c, lookup->key);
	if (*at && mlr_now_ms() >= (*at)->end_ms)
		drop(c, at);
	else if (*at && (*at)->size == lookup->size) {
		memcpy(lookup->logits, (*at)->logits, lookup->size);
		unlink_use(c, *at);
		link_use(c, *at);
		lookup->hit = 1;
	}
	pthread_mutex_unlock(&c->lock);
}

static void put(struct serve_cache *cache, const char *key, const float *logits, size_t size)
{
	struct memory_cache *c = own(cache);
	struct kept *k, **at;

	if (sizeof(*k) + size > c->most)
		return;
	k = malloc(sizeof(*k) + size);
	if (!k)
		return;
	memcpy(k->key, key, HASH_HEX_SIZE);
	memcpy(k->logits, logits, size);
	k->size = size;
	k->end_ms = mlr_now_ms() + (int64_t)cache->ttl * 1000;
	pthread_mutex_lock(&c->lock);
	at = find(c, key);
	if (*at)
		drop(c, at);
	while (c->used + sizeof(*k) + size > c->most)
		drop(c, find(c, c->oldest->key));
	c->used += sizeof(*k) + size;
	at = list_of(c, key);
	k->next = *at;
	*at = k;
	link_use(c, k);
	pthread_mutex_unlock(&c->lock);
}

static const struct serve_cache_kind serve_cache_memory = {
	.scheme = "memory:", .open = open_cache, .close = close_cache, .get = get, .put = put
};

/* --- all caches -------------------------------------------------------------------------- */

static const struct serve_cache_kind *const kinds[] = {
	&serve_cache_memory,
#if HAVE_SERVE
	&serve_cache_redis,
#endif
};

int serve_cache_open(const char *where, int ttl, struct serve_counts *counts,
	struct serve_cache **ret, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t n = strlen(kinds[i]->scheme);

		if (strncmp(where, kinds[i]->scheme, n) != 0)
			continue;
		TRY(kinds[i]->open(where + n, ret, err));
		(*ret)->kind = kinds[i];
		(*ret)->counts = counts;
		(*ret)->ttl = ttl;
		if (kinds[i]->start)
			kinds[i]->start(*ret);
		return 0;
	}
	mlr_fail(err, EINVAL, "no such cache");
	return mlr_hint(err, "give memory:SIZE or redis://HOST:PORT/DB");
}

void serve_cache_close(struct serve_cache **c)
{
	if (*c)
		(*c)->kind->close(*c);
	*c = NULL;
}

void serve_cache_key(const struct serve_ask *ask, char key[HASH_HEX_SIZE])
{
	const struct serve_model *m = ask->model;
	const char *dtype = dtype_name(atomic_load(&m->engines[m->n_engines - 1])->dtype);
	auto_hash struct hash *h = hash_new();

	hash_update(h, m->key, sizeof(m->key));
	hash_update(h, dtype, strlen(dtype) + 1);
	hash_update(h, ask->images, (size_t)ask->rows * m->pixels);
	hash_final(h, key);
}

void serve_cache_get(struct serve_cache *c, struct serve_lookup *lookup)
{
	lookup->hit = 0;
	c->kind->get(c, lookup);
	if (!c->kind->waits)
		atomic_fetch_add(lookup->hit ? &c->counts->hits : &c->counts->misses, 1);
}
