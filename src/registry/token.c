#include "registry/token.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "oci/json.h"
#include "registry/buffer.h"
#include "registry/challenge.h"
#include "registry/url.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define ANSWER_MAX (256u << 10) /* bytes; tokens of large sites reach some 10 KiB */

struct token_cache {
	pthread_mutex_t lock; /* held while a token is fetched, so that several threads fetch one */
	char *token;
};

struct token_cache *token_cache_new(void)
{
	struct token_cache *t = xcalloc(1, sizeof(*t));

	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void token_cache_free(struct token_cache *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t->token);
	free(t);
}

char *token_get(struct token_cache *t)
{
	char *copy;

	pthread_mutex_lock(&t->lock);
	copy = t->token ? xstrdup(t->token) : NULL;
	pthread_mutex_unlock(&t->lock);
	return copy;
}

/* The token becomes part of a header: nothing in it may end one. */
static int check_token(const char *token)
{
	if (*token == '\0')
		return 0;
	for (; *token; token++)
		if ((unsigned char)*token <= 0x20 || (unsigned char)*token >= 0x7f)
			return 0;
	return 1;
}

static int parse_answer(const struct buffer *b, char **ret, struct mlr_error *err)
{
	json_auto_t *root = NULL;
	const char *token, *access_token;
	int r;

	r = oci_json_load(b->data ? b->data : "", b->len, ANSWER_MAX, &root, err);
	if (r == 0)
		r = oci_json_text(root, "token", &token, err);
	if (r == 0)
		r = oci_json_text(root, "access_token", &access_token, err);
	if (r < 0)
		return r;
	if (!token)
		token = access_token;
	if (!token || !check_token(token))
		return mlr_fail(err, EPROTO, "the answer holds no token");
	*ret = xstrdup(token);
	return 0;
}

static char *make_url(const struct challenge *c, const char *scope)
{
	auto_free char *with_service = NULL;

	with_service =
		c->service ? url_add_query(c->realm, "service", c->service) : xstrdup(c->realm);
	return with_service ? url_add_query(with_service, "scope", c->scope ? c->scope : scope)
			    : NULL;
}

static int ask(struct http *h, const char *url, const char *base, char **ret, int *transient,
	struct mlr_error *err)
{
	auto_call(buffer_done) struct buffer answer = BUFFER_INIT(ANSWER_MAX);
	auto_call(http_exchange_done) struct http_exchange x = { .url = url, .base = base,
		.sink = buffer_put, .sink_ctx = &answer };
	int r = http_perform(h, &x, err);

	*transient = r < 0 && x.transient;
	if (r < 0)
		return r;
	if (x.status == 401 || x.status == 403)
		return mlr_fail(err, EACCES, "anonymous access is refused");
	if (x.status != 200) {
		*transient = x.status == 429 || x.status >= 500;
		return mlr_fail(err, EIO, "HTTP status %d", x.status);
	}
	return parse_answer(&answer, ret, err);
}

static int fetch(struct token_cache *t, struct http *h, const char *header, const char *base,
	const char *scope, int *transient, struct mlr_error *err)
{
	auto_call(challenge_done) struct challenge c = CHALLENGE_INIT;
	auto_free char *url = NULL, *token = NULL;
	int r;

	r = challenge_parse(header ? header : "", &c, err);
	if (r < 0)
		return r;
	if (c.scheme == CHALLENGE_BASIC)
		return mlr_fail(err, EACCES, "the registry wants a user name and a password");
	if (c.scheme != CHALLENGE_BEARER)
		return mlr_fail(
			err, EACCES, "the registry refuses access and offers no way to ask for it");
	r = url_check_realm(c.realm, base, err);
	if (r < 0)
		return r;
	url = make_url(&c, scope);
	if (!url)
		return mlr_fail(
			err, EPROTO, "the token server's address '%.200s' is malformed", c.realm);

	r = ask(h, url, base, &token, transient, err);
	if (r < 0)
		return mlr_wrap(err, "ask '%.200s' for a token", c.realm);
	free(t->token);
	t->token = take_ptr(&token);
	return 0;
}

int token_renew(struct token_cache *t, struct http *h, const char *refused, const char *challenge,
	const char *base, const char *scope, int *transient, struct mlr_error *err)
{
	int r = 0;

	*transient = 0;
	pthread_mutex_lock(&t->lock);
	if (!t->token || (refused && strcmp(t->token, refused) == 0))
		r = fetch(t, h, challenge, base, scope, transient, err);
	pthread_mutex_unlock(&t->lock);
	return r;
}
