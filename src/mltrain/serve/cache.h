/*
 * Keeps answers: logits under the digest of the network (its weights, structure and normalisation),
 * the dtype and the whole input, so that all dialects share them and a reload never gives old ones.
 */
#pragma once

#include "serve/ask.h"
#include "serve/counts.h"

#define SERVE_CACHE_PREFIX "mlapi-cache"

struct serve_cache;

/* A question to the cache, and where its answer goes. */
struct serve_lookup {
	char key[HASH_HEX_SIZE];
	float *logits; /* [size] bytes */
	size_t size;
	int hit;

	/* Called once if the cache's kind waits, in any thread. */
	void (*done)(struct serve_lookup *lookup);
	void *ctx;
	struct serve_lookup *next; /* the cache's own */
};

/*
 *   where   "memory:64m" or "redis://HOST:PORT/DB"
 *   ttl     seconds that an answer is kept
 *
 * A redis that is not there is tried again, now and then. Returns 0, -EINVAL for another text.
 */
int serve_cache_open(const char *where, int ttl, struct serve_counts *counts,
	struct serve_cache **ret, struct mlr_error *err);
void serve_cache_close(struct serve_cache **c);

/* Make the key of what is asked. */
void serve_cache_key(const struct serve_ask *ask, char key[HASH_HEX_SIZE]);

/* Look up a key: sets lookup->hit at once, or if its kind waits calls done(), perhaps at once. */
void serve_cache_get(struct serve_cache *c, struct serve_lookup *lookup);

/* --- the kinds of caches --- */

struct serve_cache {
	const struct serve_cache_kind *kind;
	struct serve_counts *counts;
	int ttl; /* seconds */
};

/* What a kind does, as above. */
struct serve_cache_kind {
	const char *scheme; /* "memory:" */
	int waits;          /* get() leaves its answer to done() */
	int (*open)(const char *where, struct serve_cache **ret, struct mlr_error *err);
	void (*start)(struct serve_cache *c); /* counts and ttl are there; may be NULL */
	void (*close)(struct serve_cache *c);
	void (*get)(struct serve_cache *c, struct serve_lookup *lookup);
	/* Keep logits; copies them. */
	void (*put)(struct serve_cache *c, const char *key, const float *logits, size_t size);
};

extern const struct serve_cache_kind serve_cache_redis; /* if configure found hiredis */
