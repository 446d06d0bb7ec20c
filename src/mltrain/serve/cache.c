#include "serve/cache.h"

#include "config.h"
#include "serve/cache_kind.h"

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

int serve_cache_waits(const struct serve_cache *c)
{
	return c->kind->waits;
}

void serve_cache_get(struct serve_cache *c, struct serve_lookup *lookup)
{
	lookup->hit = 0;
	c->kind->get(c, lookup);
	if (!c->kind->waits)
		atomic_fetch_add(lookup->hit ? &c->counts->hits : &c->counts->misses, 1);
}

void serve_cache_put(
	struct serve_cache *c, const char key[HASH_HEX_SIZE], const float *logits, size_t size)
{
	c->kind->put(c, key, logits, size);
}
