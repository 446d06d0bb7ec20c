/* The kinds of caches, for cache.c. */
#ifndef MLT_SERVE_CACHE_KIND_H
#define MLT_SERVE_CACHE_KIND_H

#include "serve/cache.h"

struct serve_cache {
	const struct serve_cache_kind *kind;
	struct serve_counts *counts;
	int ttl; /* seconds */
};

/* As in cache.h. */
struct serve_cache_kind {
	const char *scheme; /* "memory:" */
	int waits;
	int (*open)(const char *where, struct serve_cache **ret, struct mlr_error *err);
	void (*start)(struct serve_cache *c); /* counts and ttl are there; may be NULL */
	void (*close)(struct serve_cache *c);
	void (*get)(struct serve_cache *c, struct serve_lookup *lookup);
	void (*put)(struct serve_cache *c, const char *key, const float *logits, size_t size);
};

extern const struct serve_cache_kind serve_cache_memory;
extern const struct serve_cache_kind serve_cache_redis; /* if configure found hiredis */

#endif
