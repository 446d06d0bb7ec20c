/* Keeps compressed layers while they stream: pull_source_spool() of pull/source.h. */
#include "pull/source.h"

#include "oci/digest.h"
#include "store/blob.h"

#define BUFFER (1 << 18)

struct source_spool {
	struct pull_source source;
	struct pull_source *inner;
	struct store *st;
	uint64_t from;
	int keep;
	int was_bad; /* atomic: a kept blob had wrong bytes and was removed */
};

/* A stream's state: bytes that the spool lacks are added to it. */
struct passing {
	struct store_spool *spool;
	uint64_t at; /* of the blob */
	registry_sink_fn sink;
	void *ctx;
	int sink_failed;
};

static int pass(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct passing *p = ctx;
	uint64_t have = store_spool_have(p->spool);
	size_t known = have <= p->at ? 0 : have - p->at < len ? (size_t)(have - p->at) : len;
	int r;

	TRY(store_spool_append(p->spool, (const char *)buf + known, len - known, err));
	p->at += len;
	r = p->sink(p->ctx, buf, len, err);
	p->sink_failed = r < 0;
	return r;
}

static int fetch(struct source_spool *s, const char *digest, uint64_t size, struct passing *p,
	struct mlr_error *err)
{
	const struct pull_source_ops *ops = s->inner->ops;

	if (!ops->resume || store_spool_have(p->spool) == 0)
		return ops->stream(s->inner, digest, size, pass, p, err);
	mlr_debug("blob %s: %llu bytes are here from an earlier time", digest,
		(unsigned long long)store_spool_have(p->spool));
	return ops->resume(s->inner, digest, size, store_spool_fd(p->spool), pass, p, err);
}

/* Remove wrong bytes; if part of them came from an earlier spool, that part may be to blame. What a
 * broken transfer left is kept for the next pull. */
static int stream_spooled(struct source_spool *s, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	struct passing p = { NULL, 0, sink, ctx, 0 };
	uint64_t had;
	int r;

	TRY(store_spool_open(s->st, digest, size, &p.spool, err));
	had = store_spool_have(p.spool);
	r = fetch(s, digest, size, &p, err);
	if (r == 0 && s->keep)
		return store_spool_keep(p.spool, err);
	if (r == -EBADMSG && !p.sink_failed && had > 0)
		__atomic_store_n(&s->was_bad, 1, __ATOMIC_RELAXED);
	if (r == 0 || (r == -EBADMSG && !p.sink_failed))
		store_spool_drop(p.spool);
	else
		store_spool_leave(p.spool);
	return r;
}

/* Stream a blob that an earlier pull kept. */
static int stream_kept(struct source_spool *s, int fd, const char *digest, registry_sink_fn sink,
	void *ctx, struct mlr_error *err)
{
	auto_hash struct hash *h = hash_new();
	auto_free char *buf = xmalloc(BUFFER);
	char hex[HASH_HEX_SIZE];
	ssize_t n;

	while ((n = TEMP_FAILURE_RETRY(read(fd, buf, BUFFER))) != 0) {
		if (n < 0)
			return mlr_fail_errno(err, "read the kept blob %s", digest);
		hash_update(h, buf, (size_t)n);
		TRY(sink(ctx, buf, (size_t)n, err));
	}
	hash_final(h, hex);
	if (strcmp(hex, oci_digest_hex(digest)) == 0)
		return 0;
	store_blob_drop(s->st, digest);
	__atomic_store_n(&s->was_bad, 1, __ATOMIC_RELAXED);
	return mlr_fail(err, EBADMSG, "the kept blob %s was damaged on disk", digest);
}

static int stream(struct pull_source *source, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	struct source_spool *s = (struct source_spool *)source;
	auto_close int fd = store_blob_open(s->st, digest, size);

	if (fd >= 0)
		return stream_kept(s, fd, digest, sink, ctx, err);
	if (s->keep || (s->inner->ops->resume && size >= s->from))
		return stream_spooled(s, digest, size, sink, ctx, err);
	return s->inner->ops->stream(s->inner, digest, size, sink, ctx, err);
}

static int head(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	struct pull_source *inner = ((struct source_spool *)s)->inner;

	return inner->ops->head(inner, digest, err);
}

static int manifest(struct pull_source *s, const char *digest, struct registry_document *ret,
	struct mlr_error *err)
{
	struct pull_source *inner = ((struct source_spool *)s)->inner;

	return inner->ops->manifest(inner, digest, ret, err);
}

static int blob(
	struct pull_source *s, const char *digest, uint64_t size, char **ret, struct mlr_error *err)
{
	struct pull_source *inner = ((struct source_spool *)s)->inner;

	return inner->ops->blob(inner, digest, size, ret, err);
}

/* If kept bytes were wrong, a retry helps, whatever the source is. */
static int distrust(struct pull_source *source)
{
	struct source_spool *s = (struct source_spool *)source;
	int more = s->inner->ops->distrust ? s->inner->ops->distrust(s->inner) : 0;

	return more + __atomic_load_n(&s->was_bad, __ATOMIC_RELAXED);
}

static void spool_free(struct pull_source *s)
{
	pull_source_free(((struct source_spool *)s)->inner);
	free(s);
}

static const struct pull_source_ops ops = { head, manifest, blob, stream, spool_free, distrust,
	NULL };

struct pull_source *pull_source_spool(
	struct store *st, struct pull_source *take, uint64_t from, int keep)
{
	struct source_spool *s = xcalloc(1, sizeof(*s));

	*s = (struct source_spool){ { &ops }, take, st, from, keep, 0 };
	return &s->source;
}
