#include "registry/registry.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "oci/manifest.h"
#include "registry/answer.h"
#include "registry/buffer.h"
#include "registry/http.h"
#include "registry/retry.h"
#include "registry/token.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALL_MS      30000
#define NOTICE_MIN_MS 3000 /* shorter waits are nobody's concern */

struct registry {
	struct registry_options opt;
	struct http *http;
	struct token_cache *tokens;
	char *name, *repository;   /* as in the reference */
	char *scope;               /* "repository:library/debian:pull" */
	const char *schemes[3];    /* left to try, NULL at the end */
	char *base;                /* of schemes[0]: "https://registry-1.docker.io" */
	int settled;               /* some response came by it */
};

/* One request to the registry, repeated until it succeeds or cannot. */
struct call {
	const char *path; /* below the repository: "manifests/latest" */
	const char *what; /* for messages: "tag 'latest'" */
	int head, want_manifest;
	/* Before each try, and after an answered one, which may still be called a failure. */
	void (*begin)(void *ctx, struct http_exchange *x);
	int (*end)(void *ctx, struct http_exchange *x, struct mlr_error *err);
	http_sink_fn sink;
	void *ctx;
	uint64_t *received; /* bytes of size so far, where the sink counts them; else NULL */
	uint64_t size;
};

static void set_base(struct registry *r)
{
	const char *host = strcmp(r->name, "docker.io") == 0 ? "registry-1.docker.io" : r->name;

	free(r->base);
	r->base = xasprintf("%s://%s", r->schemes[0], host);
}

struct registry *registry_new(const struct oci_ref *ref, const struct registry_options *opt)
{
	struct http_options http = { opt->tls_verify, STALL_MS, opt->cancelled,
		opt->cancelled_ctx };
	struct registry *r = xcalloc(1, sizeof(*r));
	int loopback = oci_ref_is_loopback(ref);

	r->opt = *opt;
	r->http = http_new(&http);
	r->tokens = token_cache_new();
	r->name = xstrdup(ref->registry);
	r->repository = xstrdup(ref->repository);
	r->scope = xasprintf("repository:%s:pull", ref->repository);
	r->schemes[0] = loopback ? "http" : "https";
	r->schemes[1] = loopback ? "https" : opt->tls_verify ? NULL : "http";
	set_base(r);
	return r;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	http_free(r->http);
	token_cache_free(r->tokens);
	free(r->name);
	free(r->repository);
	free(r->scope);
	free(r->base);
	free(r);
}

void registry_document_done(struct registry_document *d)
{
	free(d->data);
	free(d->content_type);
	*d = (struct registry_document)REGISTRY_DOCUMENT_INIT;
}

/* Send it once with the token at hand, and once more with a new one when that was refused. */
static int try_with_token(struct registry *r, const struct call *c, struct http_exchange *x,
	struct mlr_error *err)
{
	auto_free char *url = xasprintf("%s/v2/%s/%s", r->base, r->repository, c->path);

	for (int renewed = 0;; renewed = 1) {
		auto_free char *token = token_get(r->tokens);
		int ret;

		http_exchange_done(x);
		*x = (struct http_exchange){ .url = url, .base = r->base, .head = c->head,
			.accept = c->want_manifest ? OCI_ACCEPT_MANIFESTS : NULL, .bearer = token,
			.sink = c->sink, .sink_ctx = c->ctx };
		if (c->begin)
			c->begin(c->ctx, x);
		ret = http_perform(r->http, x, err);
		x->url = x->base = x->bearer = NULL;
		if (ret < 0 || x->status != 401 || x->redirected || renewed)
			return ret;
		ret = token_renew(r->tokens, r->http, token, x->authenticate, r->base, r->scope,
			&x->transient, err);
		if (ret == -EACCES)
			return answer_refused(r->name, r->repository, err);
		if (ret < 0)
			return ret;
	}
}

/*
 * Has the peer shown that it speaks the other scheme? A TLS server tells a plain request off with
 * 400; a plain one breaks the handshake; another port than the default may not even be open.
 */
static int wrong_scheme(const struct registry *r, const struct http_exchange *x, int ret)
{
	if (r->settled || !r->schemes[1])
		return 0;
	if (ret == 0)
		return x->status == 400 && strcmp(r->schemes[0], "http") == 0;
	return x->other_protocol || x->unreached;
}

/* Try the schemes in their order until one gets an answer. The first one's failure is the one told,
 * unless the second shows that it was understood. */
static int try_schemes(struct registry *r, const struct call *c, struct http_exchange *x,
	struct mlr_error *err)
{
	struct mlr_error first = MLR_ERROR_INIT;
	int ret = try_with_token(r, c, x, err);

	if (wrong_scheme(r, x, ret)) {
		if (ret == 0)
			answer_fail(x, r->name, r->repository, c->what, err);
		first = *err;
		mlr_debug(
			"'%s' does not speak %s, trying %s", r->name, r->schemes[0], r->schemes[1]);
		r->schemes[0] = r->schemes[1];
		r->schemes[1] = NULL;
		set_base(r);
		ret = try_with_token(r, c, x, err);
		if (ret < 0 && (x->unreached || x->other_protocol)) {
			*err = first;
			ret = -first.code;
		}
	}
	/* Written by the first call only, before there is more than one thread. */
	if (ret == 0 && !r->settled)
		r->settled = 1;
	return ret;
}

static void tell_wait(struct registry *r, int64_t ms, const struct mlr_error *err)
{
	auto_free char *words = NULL;

	words = xasprintf("%.*s; trying again in %lld s", (int)strcspn(err->text, "\n"), err->text,
		(long long)(ms + 500) / 1000);
	if (r->opt.notice && ms >= NOTICE_MIN_MS)
		r->opt.notice(r->opt.notice_ctx, words);
	else
		mlr_debug("%s", words);
}

/* Run a call to its end. Returns 0 with a status of 200 or 206 in x. */
static int run(
	struct registry *r, const struct call *c, struct http_exchange *x, struct mlr_error *err)
{
	struct retry retry = RETRY_INIT;

	for (;;) {
		int reached = r->settled, ret = try_schemes(r, c, x, err);
		int64_t ms;

		if (ret == 0 && (x->status == 200 || x->status == 206))
			ret = c->end ? c->end(c->ctx, x, err) : 0;
		else if (ret == 0)
			ret = answer_fail(x, r->name, r->repository, c->what, err);
		if (ret == 0)
			return 0;
		/* All bytes came before the connection broke. */
		if (c->received && *c->received == c->size &&
			(x->status == 200 || x->status == 206))
			return 0;
		/* A registry that never answered is more likely misspelt than restarting. */
		if (!x->transient || (x->unreached && !reached))
			return ret;
		ms = retry_delay(&retry, c->received ? *c->received : 0, x->retry_after,
			(unsigned)(http_now_ms() ^ getpid()));
		if (ms < 0)
			return ret;
		tell_wait(r, ms, err);
		ret = http_sleep(r->http, ms, err);
		if (ret < 0)
			return ret;
	}
}

static void begin_document(void *ctx, struct http_exchange *x)
{
	(void)x;
	buffer_done(ctx);
}

static char *describe(const char *reference)
{
	return strchr(reference, ':') ? xasprintf("manifest %s", reference) :
					xasprintf("tag '%s'", reference);
}

int registry_manifest_head(struct registry *r, const char *tag, char digest[OCI_DIGEST_SIZE],
	struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("manifests/%s", tag), *what = describe(tag);
	struct call c = { .path = path, .what = what, .head = 1, .want_manifest = 1 };
	int ret = run(r, &c, &x, err);

	if (ret < 0)
		return ret;
	if (x.digest && oci_digest_check(x.digest, NULL) == 0)
		memcpy(digest, x.digest, OCI_DIGEST_SIZE);
	else
		digest[0] = '\0';
	return 0;
}

int registry_manifest_get(struct registry *r, const char *reference, struct registry_document *ret,
	struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_call(buffer_done) struct buffer b = BUFFER_INIT(OCI_DOCUMENT_MAX);
	auto_free char *path = xasprintf("manifests/%s", reference), *what = describe(reference);
	struct call c = { .path = path, .what = what, .want_manifest = 1, .begin = begin_document,
		.sink = buffer_put, .ctx = &b };
	char digest[OCI_DIGEST_SIZE];
	const char *want;
	int r2 = run(r, &c, &x, err);

	if (r2 < 0)
		return r2;
	if (!b.data)
		return mlr_fail(err, EPROTO, "%s: the answer is empty", what);
	memcpy(digest, "sha256:", 7);
	hash_buffer(b.data, b.len, digest + 7);

	want = strchr(reference, ':') ? reference : x.digest;
	if (want && strcmp(want, digest) != 0)
		return mlr_fail(err, EBADMSG, "%s: the registry's bytes hash to %s, not to %.100s",
			what, digest, want);

	memcpy(ret->digest, digest, sizeof(digest));
	ret->len = b.len;
	ret->data = take_ptr(&b.data);
	ret->content_type = take_ptr(&x.content_type);
	return 0;
}

/* A blob on its way. */
struct stream {
	const char *digest;
	uint64_t size, received;
	uint64_t skip; /* bytes of this response that came before: the server ignored Range */
	int begun;     /* this response's headers were judged */
	struct http_exchange *x;
	struct hash *hash;
	registry_sink_fn sink;
	void *sink_ctx;
};

static void begin_stream(void *ctx, struct http_exchange *x)
{
	struct stream *s = ctx;

	x->from = s->received;
	s->x = x;
	s->begun = 0;
}

/* A body that ends with the connection may have been cut: then the rest is asked for, unless the
 * registry itself said that there is no more. */
static int end_stream(void *ctx, struct http_exchange *x, struct mlr_error *err)
{
	struct stream *s = ctx;

	if (s->received == s->size)
		return 0;
	x->transient = x->length < 0;
	return mlr_fail(err, EBADMSG, "blob %s: %" PRIu64 " bytes instead of the %" PRIu64
		" that the manifest says", s->digest, s->received, s->size);
}

/* Where in the blob does this response begin? */
static int judge_response(struct stream *s, struct mlr_error *err)
{
	const struct http_exchange *x = s->x;

	s->begun = 1;
	s->skip = 0;
	if (x->status == 206) {
		if (x->first != s->received)
			return mlr_fail(err, EPROTO,
				"blob %s: asked to go on at byte %" PRIu64 ", the registry did not",
				s->digest, s->received);
		return 0;
	}
	s->skip = s->received;
	return 0;
}

static int put_stream(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct stream *s = ctx;
	const char *p = buf;
	int r;

	if (!s->begun) {
		r = judge_response(s, err);
		if (r < 0)
			return r;
	}
	if (s->skip > 0) {
		size_t n = len < s->skip ? len : (size_t)s->skip;

		s->skip -= n;
		p += n;
		len -= n;
	}
	if (len > s->size - s->received)
		return mlr_fail(err, EBADMSG,
			"blob %s: longer than the %" PRIu64 " bytes that the manifest says",
			s->digest, s->size);
	if (len == 0)
		return 0;
	hash_update(s->hash, p, len);
	r = s->sink(s->sink_ctx, p, len, err);
	if (r == 0)
		s->received += len;
	return r;
}

static int finish_stream(struct stream *s, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];

	hash_final(s->hash, hex);
	if (strcmp(hex, oci_digest_hex(s->digest)) != 0)
		return mlr_fail(err, EBADMSG, "blob %s: the registry's bytes hash to sha256:%s",
			s->digest, hex);
	return 0;
}

int registry_blob_stream(struct registry *r, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("blobs/%s", digest), *what = xasprintf("blob %s", digest);
	auto_hash struct hash *hash = hash_new();
	struct stream s = { digest, size, .hash = hash, .sink = sink, .sink_ctx = ctx };
	struct call c = { .path = path, .what = what, .begin = begin_stream, .end = end_stream,
		.sink = put_stream, .ctx = &s, .received = &s.received, .size = size };
	int ret;

	ret = run(r, &c, &x, err);
	if (ret < 0)
		return ret;
	return finish_stream(&s, err);
}

int registry_blob_get(struct registry *r, const char *digest, uint64_t size, char **ret,
	struct mlr_error *err)
{
	auto_call(buffer_done) struct buffer b = BUFFER_INIT(OCI_DOCUMENT_MAX);
	int r2 = registry_blob_stream(r, digest, size, buffer_put, &b, err);

	if (r2 < 0)
		return r2;
	*ret = b.data ? take_ptr(&b.data) : xstrdup("");
	return 0;
}
