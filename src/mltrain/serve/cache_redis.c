/*
 * A cache in redis, which several servers share. One thread speaks with it: all that waits goes out
 * at once, then the answers are read, so that the thread follows the load by itself. Without redis
 * every lookup is a miss at once; the thread tries again after a while, at most RETRY_MAX_MS.
 */
#include "serve/cache.h"

#include <hiredis/hiredis.h>

#define TIMEOUT_MS   250 /* of connecting, and of an answer */
#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 5000
#define AT_ONCE      512  /* commands */
#define PUTS_MAX     4096 /* that wait; more are dropped */

struct put {
	struct put *next;
	size_t size;
	char key[HASH_HEX_SIZE];
	float logits[];
};

struct redis_cache {
	struct serve_cache cache; /* first */
	char *host;
	int port, db;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct serve_lookup *lookups, **last_lookup;
	struct put *puts, **last_put;
	int n_puts;
	int up, closing; /* under the lock; up is changed by the thread alone */

	/* The thread's own. */
	redisContext *redis;
	int64_t retry_ms, next_ms; /* the pause, and the time of the next try */
	int told;
};

static struct redis_cache *own(struct serve_cache *c)
{
	return (struct redis_cache *)c;
}

/* HOST, HOST:PORT, HOST:PORT/DB or HOST/DB */
static int open_cache(const char *where, struct serve_cache **ret, struct mlr_error *err)
{
	struct redis_cache *c = xcalloc(1, sizeof(*c));
	char host[256];
	int used = -1;

	c->port = 6379;
	sscanf(where, "%255[^:/@]%n:%5d%n/%5d%n", host, &used, &c->port, &used, &c->db, &used);
	if (used > 0 && where[used] == '/')
		sscanf(where, "%255[^:/@]/%5d%n", host, &c->db, &used);
	if (used < 0 || where[used] || c->port < 1 || c->port > 65535 || c->db < 0) {
		free(c);
		return mlr_fail(err, EINVAL,
			"'redis://%s' is not redis://HOST:PORT/DB; $REDISCLI_AUTH has the password",
			where);
	}
	c->host = xstrdup(host);
	*ret = &c->cache;
	return 0;
}

/* --- the connection --------------------------------------------------------------------------- */

static void set_up(struct redis_cache *c, int up)
{
	pthread_mutex_lock(&c->lock);
	c->up = up;
	pthread_mutex_unlock(&c->lock);
}

/* Say once that redis is gone, until it is back. */
static void lose(struct redis_cache *c, const char *why)
{
	if (!c->told++)
		mlr_warning("redis at %s:%d: %s; answers are not cached until it is back", c->host,
			c->port, why);
	atomic_fetch_add(&c->cache.counts->cache_errors, 1);
	if (c->redis)
		redisFree(c->redis);
	c->redis = NULL;
	c->next_ms = mlr_now_ms() + c->retry_ms;
	c->retry_ms = 2 * c->retry_ms < RETRY_MAX_MS ? 2 * c->retry_ms : RETRY_MAX_MS;
	set_up(c, 0);
}

static int command_is_fine(struct redis_cache *c, redisReply *reply)
{
	int fine = reply && reply->type != REDIS_REPLY_ERROR;

	if (!fine)
		lose(c, reply ? reply->str : c->redis->errstr);
	if (reply)
		freeReplyObject(reply);
	return fine;
}

static void connect_redis(struct redis_cache *c)
{
	const struct timeval timeout = { 0, TIMEOUT_MS * 1000 };
	const char *password = getenv("REDISCLI_AUTH");

	c->redis = redisConnectWithTimeout(c->host, c->port, timeout);
	if (!c->redis || c->redis->err) {
		lose(c, c->redis ? c->redis->errstr : "no memory");
		return;
	}
	redisSetTimeout(c->redis, timeout);
	if (password && *password &&
		!command_is_fine(c, redisCommand(c->redis, "AUTH %s", password)))
		return;
	/* SELECT also for database 0: the kernel accepts connections even if redis hangs. */
	if (!command_is_fine(c, redisCommand(c->redis, "SELECT %d", c->db)))
		return;
	if (c->told)
		mlr_info("redis at %s:%d is back", c->host, c->port);
	c->told = 0;
	c->retry_ms = RETRY_MIN_MS;
	set_up(c, 1);
}

/* --- commands --------------------------------------------------------------------------------- */

static void finish(struct redis_cache *c, struct serve_lookup *lookup)
{
	atomic_fetch_add(lookup->hit ? &c->cache.counts->hits : &c->cache.counts->misses, 1);
	lookup->done(lookup);
}

/* An error of one command, such as a full memory's, is a miss; only a lost connection ends. */
static redisReply *receive(struct redis_cache *c)
{
	redisReply *reply = NULL;

	if (c->redis && redisGetReply(c->redis, (void **)&reply) != REDIS_OK)
		lose(c, c->redis->errstr);
	return c->redis ? reply : NULL;
}

static void take_value(struct serve_lookup *lookup, redisReply *reply)
{
	lookup->hit = reply && reply->type == REDIS_REPLY_STRING && reply->len == lookup->size;
	if (lookup->hit) {
		memcpy(lookup->logits, reply->str, lookup->size);
		/* Anyone who may write to redis can have put anything there. */
		lookup->hit =
			predictor_is_finite(lookup->logits, (int)(lookup->size / sizeof(float)));
	}
	if (reply)
		freeReplyObject(reply);
}

/* Lookups first, as somebody waits for them. */
static void run(struct redis_cache *c, struct serve_lookup *lookups, struct put *puts)
{
	for (const struct serve_lookup *l = lookups; c->redis && l; l = l->next)
		if (redisAppendCommand(c->redis, "GET " SERVE_CACHE_PREFIX ":%s", l->key) !=
			REDIS_OK)
			lose(c, "no memory");
	for (const struct put *p = puts; c->redis && p; p = p->next)
		if (redisAppendCommand(c->redis, "SET " SERVE_CACHE_PREFIX ":%s %b EX %d", p->key,
			    p->logits, p->size, c->cache.ttl) != REDIS_OK)
			lose(c, "no memory");
	while (lookups) {
		struct serve_lookup *l = lookups;

		lookups = l->next; /* it is gone after done() */
		take_value(l, receive(c));
		finish(c, l);
	}
	while (puts) {
		struct put *p = puts;
		redisReply *reply = receive(c);

		if (reply)
			freeReplyObject(reply);
		puts = p->next;
		free(p);
	}
}

/* Cut a list behind its first n elements; returns the rest. */
#define CUT(list, n)                                         \
	({                                                   \
		__typeof__(list) at_ = (list), rest_ = NULL; \
		for (int i_ = 1; at_ && i_ < (n); i_++)      \
			at_ = at_->next;                     \
		if (at_) {                                   \
			rest_ = at_->next;                   \
			at_->next = NULL;                    \
		}                                            \
		rest_;                                       \
	})

static void run_all(struct redis_cache *c, struct serve_lookup *lookups, struct put *puts)
{
	while (lookups || puts) {
		struct serve_lookup *more = CUT(lookups, AT_ONCE);
		struct put *rest = CUT(puts, AT_ONCE);

		run(c, lookups, puts);
		lookups = more;
		puts = rest;
	}
}

/* Wait, with the lock held, for something to do. */
static void wait_for_more(struct redis_cache *c)
{
	while (c->up && !c->lookups && !c->puts && !c->closing)
		pthread_cond_wait(&c->more, &c->lock);
	while (!c->up && !c->lookups && !c->closing && mlr_now_ms() < c->next_ms)
		mlr_cond_wait_until(&c->more, &c->lock, (double)c->next_ms / 1e3);
}

static void *work(void *arg)
{
	struct redis_cache *c = arg;

	connect_redis(c);
	pthread_mutex_lock(&c->lock);
	while (!c->closing || c->lookups) {
		struct serve_lookup *lookups;
		struct put *puts;

		wait_for_more(c);
		lookups = take_ptr(&c->lookups);
		puts = take_ptr(&c->puts);
		c->last_lookup = &c->lookups;
		c->last_put = &c->puts;
		c->n_puts = 0;
		pthread_mutex_unlock(&c->lock);
		run_all(c, lookups, puts);
		if (!c->redis && mlr_now_ms() >= c->next_ms)
			connect_redis(c);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* --- the cache -------------------------------------------------------------------------------- */

static void start(struct serve_cache *cache)
{
	struct redis_cache *c = own(cache);

	c->retry_ms = RETRY_MIN_MS;
	c->last_lookup = &c->lookups;
	c->last_put = &c->puts;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	if (pthread_create(&c->thread, NULL, work, c) != 0)
		mlr_oom();
}

static void close_cache(struct serve_cache *cache)
{
	struct redis_cache *c = own(cache);

	pthread_mutex_lock(&c->lock);
	c->closing = 1;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	if (c->redis)
		redisFree(c->redis);
	while (c->puts) {
		struct put *p = c->puts;

		c->puts = p->next;
		free(p);
	}
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	free(c->host);
	free(c);
}

static void get(struct serve_cache *cache, struct serve_lookup *lookup)
{
	struct redis_cache *c = own(cache);
	int up;

	lookup->next = NULL;
	pthread_mutex_lock(&c->lock);
	up = c->up && !c->closing;
	if (up) {
		*c->last_lookup = lookup;
		c->last_lookup = &lookup->next;
		pthread_cond_signal(&c->more);
	}
	pthread_mutex_unlock(&c->lock);
	if (!up)
		finish(c, lookup);
}

static void put(struct serve_cache *cache, const char *key, const float *logits, size_t size)
{
	struct redis_cache *c = own(cache);
	struct put *p = malloc(sizeof(*p) + size);

	if (!p)
		return;
	p->next = NULL;
	p->size = size;
	memcpy(p->key, key, HASH_HEX_SIZE);
	memcpy(p->logits, logits, size);
	pthread_mutex_lock(&c->lock);
	if (c->up && !c->closing && c->n_puts < PUTS_MAX) {
		*c->last_put = p;
		c->last_put = &p->next;
		c->n_puts++;
		pthread_cond_signal(&c->more);
		p = NULL;
	}
	pthread_mutex_unlock(&c->lock);
	free(p);
}

const struct serve_cache_kind serve_cache_redis = { .scheme = "redis://",
	.waits = 1,
	.open = open_cache,
	.start = start,
	.close = close_cache,
	.get = get,
	.put = put };
