
#include "registry/answer.h"
#include "registry/request.h"
#include "registry/url.h"

#define PIECE_FIRST (32u << 20) /* bytes, once a whole blob is too large for a registry */
#define PIECE_LEAST (1u << 20)

static struct endpoint *registry_itself(struct registry *r)
{
	return r->endpoints[r->n - 1];
}

int registry_blob_has(struct registry *r, const char *digest, struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("blobs/%s", digest), *what = xasprintf("blob %s", digest);
	struct request q = { .path = path, .what = what, .head = 1, .no_mirrors = 1 };
	int ret = request_run(r, &q, &x, err);

	if (ret == -ENOENT || ret == -EACCES)
		return 0;
	return ret < 0 ? ret : 1;
}

/* The URL of an upload, from the answer to one of its requests. It may lie elsewhere. */
static int take_location(struct endpoint *e, const struct http_exchange *x, char **url,
	const char *request_url, struct mlr_error *err)
{
	const char *base = e->bases[e->at];
	auto_free char *next = x->location ? url_join(request_url, x->location) : NULL;

	if (!next)
		return mlr_fail(err, EPROTO, "'%s' does not say where to upload", e->name);
	if (url_check_redirect(next, base, err) < 0)
		return mlr_wrap(err, "'%s' says where to upload", e->name);
	set_ptr(url, take_ptr(&next));
	return 0;
}

/* An upload in progress (distribution-spec, "Pushing blobs"). */
struct sending {
	struct registry *r;
	struct endpoint *e;
	const struct registry_upload *u;
	char *url;      /* of the upload; NULL: there is none yet */
	uint64_t at;    /* bytes that the registry has */
	uint64_t piece; /* bytes of a request at most; 0: all that there are */
	int is_whole;   /* the registry has all bytes */
	int is_doubted; /* a request broke: ask what the registry has */

	/* The request in progress. */
	uint64_t sent, limit;
	int saw_end, fatal;
	struct http_exchange x;
};

static void sending_done(struct sending *s)
{
	http_exchange_done(&s->x);
	free(s->url);
}

/* Ask for an upload; from and digest: or for a mount. Returns the status. */
static int start(struct registry *r, struct sending *s, const char *what, const char *digest,
	const char *from, struct mlr_error *err)
{
	auto_free char *query = digest ? xasprintf("?mount=%s&from=%s", digest, from) : NULL,
		       *path = xasprintf("blobs/uploads/%s", query ? query : "");
	struct request q = {
		.path = path, .what = what, .no_mirrors = 1, .is_upload = 1, .method = "POST"
	};
	auto_free char *url = NULL;
	int ret;

	TRY(digest ? request_run(r, &q, &s->x, err) : request_once(s->e, &q, &s->x, err));
	url = xasprintf("%s/v2/%s/blobs/uploads/", s->e->bases[s->e->at], s->e->repository);
	if (s->x.status == 201)
		return 201;
	ret = take_location(s->e, &s->x, &s->url, url, err);
	return ret < 0 ? ret : s->x.status;
}

/* Give an upload up that a registry has begun in place of a mount. A failure does not matter. */
static void give_up(struct sending *s)
{
	struct request q = {
		.url = s->url, .what = "upload", .no_mirrors = 1, .is_upload = 1, .method = "DELETE"
	};
	struct mlr_error err = MLR_ERROR_INIT;

	if (request_once(s->e, &q, &s->x, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, "");
}

int registry_blob_mount(
	struct registry *r, const char *digest, const char *from, struct mlr_error *err)
{
	auto_call(sending_done) struct sending s = { .r = r, .e = registry_itself(r) };
	auto_free char *what = xasprintf("blob %s", digest);
	int ret = start(r, &s, what, digest, from, err);

	if (ret == 201)
		return 1;
	if (ret >= 0)
		give_up(&s);
	return ret >= 0 || ret == -ENOENT || ret == -EACCES ? 0 : ret;
}

static ssize_t read_body(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct sending *s = ctx;
	ssize_t n;

	if (s->limit - s->sent < len)
		len = (size_t)(s->limit - s->sent);
	if (len == 0)
		return 0;
	n = s->u->read(s->u->ctx, s->at + s->sent, buf, len, err);
	s->fatal = n < 0;
	s->saw_end = n == 0;
	if (n > 0)
		s->sent += (uint64_t)n;
	return n;
}

static void begin_body(void *ctx, struct http_exchange *x)
{
	struct sending *s = ctx;

	s->sent = 0;
	s->saw_end = 0;
}

/* Parse the count of bytes that the registry has: "0-1023" is 1024. Registries say "0-0" for
 * nothing, too; a single byte is then sent twice, which a registry that counts refuses and the next
 * try mends. */
static int parse_range(const char *range, uint64_t *ret)
{
	unsigned long long first, last;

	if (!range || sscanf(range, "%llu-%llu", &first, &last) != 2 || first != 0)
		return -EPROTO;
	*ret = last == 0 ? 0 : last + 1;
	return 0;
}

/* A first request without a limit begins before all bytes are made; any other needs its range. */
static int plan_body(struct sending *s, struct http_body *body, struct mlr_error *err)
{
	int64_t size, left;

	s->limit = UINT64_MAX;
	*body = (struct http_body){
		.type = "application/octet-stream", .length = -1, .read = read_body, .ctx = s
	};
	if (s->at == 0 && s->piece == 0)
		return 0;
	size = s->u->size(s->u->ctx, err);
	if (size < 0) {
		s->fatal = 1;
		return (int)size;
	}
	if (s->at > (uint64_t)size)
		return mlr_fail(
			err, EPROTO, "'%s' has more of %s than there is", s->e->name, s->u->what);
	left = size - (int64_t)s->at;
	if (s->piece > 0 && left > (int64_t)s->piece)
		left = (int64_t)s->piece;
	s->limit = (uint64_t)left;
	body->length = left;
	if (left > 0)
		snprintf(body->range, sizeof(body->range), "%" PRIu64 "-%" PRIu64, s->at,
			s->at + (uint64_t)left - 1);
	s->is_whole = left == 0; /* all has arrived before */
	return 0;
}

/* Send the next bytes: all, or a piece. */
static int send_piece(struct sending *s, struct mlr_error *err)
{
	struct http_body body;
	struct request q = { .url = s->url,
		.what = s->u->what,
		.no_mirrors = 1,
		.is_upload = 1,
		.is_patient = 1,
		.method = "PATCH",
		.body = &body,
		.begin = begin_body,
		.ctx = s };
	int r = plan_body(s, &body, err);

	if (r < 0 || s->is_whole)
		return r;
	TRY(request_once(s->e, &q, &s->x, err));
	/* Registries disagree about the Range of this answer; success means that all was taken. */
	s->at += s->sent;
	s->is_whole = s->saw_end;
	return take_location(s->e, &s->x, &s->url, s->url, err);
}

/* Ask what has arrived before a request broke (distribution-spec, "Pushing a blob in chunks"). */
static int ask(struct sending *s, struct mlr_error *err)
{
	struct request q = { .url = s->url, .what = s->u->what, .no_mirrors = 1, .is_upload = 1 };

	TRY(request_once(s->e, &q, &s->x, err));
	if (parse_range(s->x.range, &s->at) < 0)
		return mlr_fail(
			err, EPROTO, "'%s' does not say what it has of %s", s->e->name, s->u->what);
	s->is_doubted = s->is_whole = 0;
	mlr_debug("%s goes on at byte %" PRIu64, s->u->what, s->at);
	return s->x.location ? take_location(s->e, &s->x, &s->url, s->url, err) : 0;
}

static int finish(struct sending *s, struct mlr_error *err)
{
	auto_free char *url = url_add_query(s->url, "digest", s->u->digest);
	struct request q = { .url = url,
		.what = s->u->what,
		.no_mirrors = 1,
		.is_upload = 1,
		.is_patient = 1,
		.method = "PUT" };

	if (!url)
		return mlr_fail(err, EPROTO, "'%s' names no place to upload to", s->e->name);
	return request_once(s->e, &q, &s->x, err);
}

static void forget_upload(struct sending *s)
{
	free(s->url);
	s->url = NULL;
	s->at = 0;
	s->is_doubted = s->is_whole = 0;
}

static int send_once(struct sending *s, struct mlr_error *err)
{
	int r = 0;

	/* An upload that cannot be asked about is begun again. */
	if (s->url && s->is_doubted && ask(s, err) < 0) {
		if (s->x.transient)
			return -err->code;
		forget_upload(s);
	}
	if (!s->url)
		TRY(start(s->r, s, s->u->what, NULL, NULL, err));
	do
		r = send_piece(s, err);
	while (r == 0 && !s->is_whole);
	return r < 0 ? r : finish(s, err);
}

/* Too large for a request: try smaller ones. Returns 0 to do so. */
static int shrink(struct sending *s, int r)
{
	if (r != -EMSGSIZE || s->piece == PIECE_LEAST)
		return r;
	s->piece = s->piece ? s->piece / 2 : PIECE_FIRST;
	mlr_debug("%s goes in pieces of %" PRIu64 " bytes", s->u->what, s->piece);
	forget_upload(s);
	return 0;
}

int registry_blob_upload(struct registry *r, const struct registry_upload *u, struct mlr_error *err)
{
	auto_call(sending_done) struct sending s = { .r = r, .e = registry_itself(r), .u = u };
	struct request q = { .what = u->what, .received = &s.at };
	struct retry retry = RETRY_INIT;

	retry.limit = RETRY_TRIES;
	for (;;) {
		int reached = __atomic_load_n(&s.e->settled, __ATOMIC_ACQUIRE);
		int ret = send_once(&s, err);

		if (ret >= 0)
			return 0;
		if (ret == -ECANCELED || s.fatal)
			return ret;
		if (shrink(&s, ret) == 0)
			continue;
		if (s.url && (s.x.status == 404 || s.x.status == 416))
			s.x.transient = 1; /* it has forgotten the upload, or a part: ask */
		TRY(request_wait(r, s.e, &q, &s.x, reached, &retry, err));
		s.is_doubted = 1;
	}
}

/* A document to send. */
struct document {
	const char *text;
	size_t len, at;
};

static void begin_document(void *ctx, struct http_exchange *x)
{
	struct document *d = ctx;

	d->at = 0;
}

static ssize_t read_document(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct document *d = ctx;
	size_t n = d->len - d->at < len ? d->len - d->at : len;

	memcpy(buf, d->text + d->at, n);
	d->at += n;
	return (ssize_t)n;
}

int registry_manifest_put(struct registry *r, const char *reference, const char *media_type,
	const char *text, size_t len, struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("manifests/%s", reference);
	auto_free char *what = strchr(reference, ':') ? xasprintf("manifest %s", reference)
						      : xasprintf("tag '%s'", reference);
	struct document d = { text, len, 0 };
	struct http_body body = {
		.type = media_type, .length = (int64_t)len, .read = read_document, .ctx = &d
	};
	struct request q = { .path = path,
		.what = what,
		.no_mirrors = 1,
		.is_upload = 1,
		.is_patient = 1,
		.method = "PUT",
		.body = &body,
		.begin = begin_document,
		.ctx = &d };

	return request_run(r, &q, &x, err);
}
