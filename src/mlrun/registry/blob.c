
#include "oci/manifest.h"
#include "registry/buffer.h"
#include "registry/request.h"

#include <curl/curl.h>

#define AGAIN_TIMES 3 /* a server that ignores Range may resend this many times, */
#define HEAD_BUFFER (256u << 10)
#define AGAIN_FREE  (64u << 20) /* and for a small blob this many bytes */

/* The state of a blob's download. */
struct stream {
	const char *digest;
	uint64_t size, received;
	uint64_t skip;  /* bytes of this response that we already have */
	uint64_t again; /* bytes skipped so far, in total */
	int no_range;   /* the server mishandles Range: start from the beginning */
	int begun;      /* this response's headers are checked */
	int fatal;      /* the caller's sink failed */
	struct http_exchange *x;
	struct hash *hash;
	registry_sink_fn sink;
	void *sink_ctx;
};

static void begin_stream(void *ctx, struct http_exchange *x)
{
	struct stream *s = ctx;

	x->from = s->no_range ? 0 : s->received;
	s->x = x;
	s->begun = 0;
}

/* Stop using Range, after 416 (RFC 9110, 15.5.17) or a response with another range. */
static int give_up_range(struct stream *s, struct mlr_error *err)
{
	int first_time = !s->no_range;

	s->no_range = 1;
	s->x->transient = first_time;
	return mlr_fail(err, EPROTO,
		"blob %s: asked to go on at byte %" PRIu64 ", the registry did not", s->digest,
		s->received);
}

/* A body that ends when the connection closes may be truncated: request the rest, unless the
 * registry itself has said that this was all. */
static int end_stream(void *ctx, struct http_exchange *x, struct mlr_error *err)
{
	struct stream *s = ctx;

	if (x->status == 416)
		return give_up_range(s, err);
	if (s->received == s->size)
		return 0;
	x->transient = x->length < 0;
	return mlr_fail(err, EBADMSG,
		"blob %s: %" PRIu64 " bytes instead of the %" PRIu64 " that the manifest says",
		s->digest, s->received, s->size);
}

/* Find the offset in the blob at which this response begins. */
static int judge_response(struct stream *s, struct mlr_error *err)
{
	const struct http_exchange *x = s->x;
	uint64_t first = x->status == 206 ? x->first : 0;

	s->begun = 1;
	if (first > s->received)
		return give_up_range(s, err);
	s->skip = s->received - first;
	s->again += s->skip;
	if (s->again > AGAIN_TIMES * s->size + AGAIN_FREE)
		return mlr_fail(err, EPROTO,
			"blob %s: the registry cannot go on where a transfer broke, and they break at "
			"byte %" PRIu64 " of %" PRIu64,
			s->digest, s->received, s->size);
	return 0;
}

static int put_stream(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct stream *s = ctx;
	const char *p = buf;
	int r;

	if (!s->begun)
		TRY(judge_response(s, err));
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
	s->fatal = r < 0;
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

/* Use what an earlier process downloaded. */
static int put_head(struct stream *s, int head, struct mlr_error *err)
{
	auto_free char *buf = xmalloc(HEAD_BUFFER);

	while (s->received < s->size) {
		uint64_t left = s->size - s->received;
		ssize_t n = TEMP_FAILURE_RETRY(pread(head, buf,
			left < HEAD_BUFFER ? (size_t)left : HEAD_BUFFER, (off_t)s->received));

		if (n < 0)
			return mlr_fail_errno(err, "read what is there of blob %s", s->digest);
		if (n == 0)
			break;
		hash_update(s->hash, buf, (size_t)n);
		TRY(s->sink(s->sink_ctx, buf, (size_t)n, err));
		s->received += (uint64_t)n;
	}
	return 0;
}

int registry_blob_stream(struct registry *r, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	return registry_blob_resume(r, digest, size, -1, sink, ctx, err);
}

int registry_blob_resume(struct registry *r, const char *digest, uint64_t size, int head,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("blobs/%s", digest), *what = xasprintf("blob %s", digest);
	auto_hash struct hash *hash = hash_new();
	struct stream s = { digest, size, .hash = hash, .sink = sink, .sink_ctx = ctx };
	struct request q = { .path = path,
		.what = what,
		.begin = begin_stream,
		.end = end_stream,
		.sink = put_stream,
		.ctx = &s,
		.received = &s.received,
		.size = size,
		.fatal = &s.fatal };
	int ret = head < 0 ? 0 : put_head(&s, head, err);

	if (ret == 0 && (head < 0 || s.received < size))
		ret = request_run(r, &q, &x, err);
	return ret < 0 ? ret : finish_stream(&s, err);
}

int registry_blob_get(
	struct registry *r, const char *digest, uint64_t size, char **ret, struct mlr_error *err)
{
	for (int tries = 0;; tries++) {
		auto_call(buffer_done) struct buffer b = BUFFER_INIT(OCI_DOCUMENT_MAX);
		int r2 = registry_blob_stream(r, digest, size, buffer_put, &b, err);

		if (r2 == -EBADMSG && tries < registry_distrust(r))
			continue;
		if (r2 < 0)
			return r2;
		*ret = b.data ? take_ptr(&b.data) : xstrdup("");
		return 0;
	}
}

#define TRIES      4
#define CONNECT_MS 20000
#define STALL_MS   30000

static int judge(const struct http_exchange *x, struct mlr_error *err)
{
	if (x->status == 200)
		return 0;
	if (x->status == 404 || x->status == 410)
		return mlr_fail(err, ENOENT, "the server has no such file (%d)", x->status);
	if (x->status == 401 || x->status == 403)
		return mlr_fail(err, EACCES, "the server refuses the file (%d)", x->status);
	return mlr_fail(err, EPROTO, "the server answers %d", x->status);
}

static int is_passing(const struct http_exchange *x, int r)
{
	return r < 0 ? x->transient : x->status == 429 || x->status >= 500;
}

int registry_download(const char *url, const struct registry_options *opt,
	int (*begin)(void *ctx, struct mlr_error *err), registry_sink_fn sink, void *ctx,
	time_t *modified, struct mlr_error *err)
{
	const struct http_options ho = { .tls_verify = opt->tls_verify,
		.connect_ms = CONNECT_MS,
		.stall_ms = STALL_MS,
		.cancelled = opt->cancelled,
		.cancelled_ctx = opt->cancelled_ctx };
	struct http *h = http_new(&ho);
	int r = 0, again = 1;

	for (int i = 0; i < TRIES && again; i++) {
		struct http_exchange x = { .url = url, .base = url, .sink = sink, .sink_ctx = ctx };

		r = i > 0 ? http_sleep(h, 500 << i, err) : 0;
		if (r == 0)
			r = begin(ctx, err);
		if (r == 0)
			r = http_perform(h, &x, err);
		again = is_passing(&x, r);
		if (r == 0)
			r = judge(&x, err);
		*modified = x.modified ? curl_getdate(x.modified, NULL) : -1;
		http_exchange_done(&x);
	}
	http_free(h);
	return r < 0 ? mlr_wrap(err, "fetch '%s'", url) : 0;
}
