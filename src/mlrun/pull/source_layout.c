#include "pull/bundle.h"

#include "oci/digest.h"
#include "oci/layout.h"

#define CHUNK (256u << 10)

struct source_layout {
	struct pull_source source;
	struct files *files;
	const struct plain_options *plain;
	struct registry_document index; /* index.json, if it is the requested document itself */
	char digest[OCI_DIGEST_SIZE];   /* else the requested document's digest, type and size */
	char *media_type;
	uint64_t size;
};

static int check(const char *digest, const void *buf, size_t len, struct mlr_error *err)
{
	char is[OCI_DIGEST_SIZE];

	hash_digest(buf, len, is);
	if (strcmp(is, digest) != 0)
		return mlr_fail(err, EBADMSG, "blob %s: its bytes hash to %s", digest, is);
	return 0;
}

static char *blob_name(const char *digest)
{
	return xasprintf("blobs/sha256/%s", oci_digest_hex(digest));
}

/* A blob that the layout lacks is the layout's fault, not the user's. */
static int read_blob(
	struct source_layout *l, const char *digest, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *name = blob_name(digest), *buf = NULL;

	TRY(files_read(l->files, name, OCI_DOCUMENT_MAX, &buf, len, err));
	TRY(check(digest, buf, *len, err));
	*ret = take_ptr(&buf);
	return 0;
}

static int head(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	struct source_layout *l = (struct source_layout *)s;

	memcpy(digest, l->digest, OCI_DIGEST_SIZE);
	return 0;
}

static int manifest(struct pull_source *s, const char *digest, struct registry_document *ret,
	struct mlr_error *err)
{
	struct source_layout *l = (struct source_layout *)s;

	if (!digest && l->index.data) {
		*ret = l->index;
		ret->data = xmalloc(l->index.len + 1);
		memcpy(ret->data, l->index.data, l->index.len + 1);
		return 0;
	}
	TRY(read_blob(l, digest ? digest : l->digest, &ret->data, &ret->len, err));
	if (!digest && ret->len != l->size) {
		mlr_fail(err, EBADMSG,
			"manifest %s: %zu bytes instead of the %" PRIu64 " that index.json says",
			l->digest, ret->len, l->size);
		registry_document_done(ret);
		return -EBADMSG;
	}
	memcpy(ret->digest, digest ? digest : l->digest, OCI_DIGEST_SIZE);
	ret->content_type = digest ? NULL : xstrdup(l->media_type);
	return 0;
}

static int blob(
	struct pull_source *s, const char *digest, uint64_t size, char **ret, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t len = 0;

	TRY(read_blob((struct source_layout *)s, digest, &buf, &len, err));
	if (len != size)
		return mlr_fail(err, EBADMSG,
			"blob %s: %zu bytes instead of the %" PRIu64 " that the manifest says",
			digest, len, size);
	*ret = take_ptr(&buf);
	return 0;
}

static int pump(struct source_layout *l, const struct files_part *p, const char *digest,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	auto_hash struct hash *hash = hash_new();
	auto_free char *buf = malloc(CHUNK);
	char hex[HASH_HEX_SIZE];

	if (!buf)
		return mlr_fail(err, ENOMEM, "blob %s: out of memory", digest);
	for (uint64_t at = 0; at < p->size;) {
		size_t n = p->size - at < CHUNK ? (size_t)(p->size - at) : CHUNK;

		TRY(mlr_result(err, files_part_read(p, at, buf, n), "read blob %s", digest));
		if (l->plain->cancelled && l->plain->cancelled(l->plain->cancelled_ctx))
			return mlr_fail(err, ECANCELED, "interrupted");
		hash_update(hash, buf, n);
		TRY(sink(ctx, buf, n, err));
		at += n;
	}
	hash_final(hash, hex);
	if (strcmp(hex, oci_digest_hex(digest)) != 0)
		return mlr_fail(err, EBADMSG, "blob %s: its bytes hash to sha256:%s", digest, hex);
	return 0;
}

static int stream(struct pull_source *s, const char *digest, uint64_t size, registry_sink_fn sink,
	void *ctx, struct mlr_error *err)
{
	struct source_layout *l = (struct source_layout *)s;
	auto_call(files_part_done) struct files_part p = FILES_PART_INIT;
	auto_free char *name = blob_name(digest);

	TRY(files_find(l->files, name, &p, err));
	if (p.size != size)
		return mlr_fail(err, EBADMSG,
			"blob %s: %" PRIu64 " bytes instead of the %" PRIu64
			" that the manifest says",
			digest, p.size, size);
	return pump(l, &p, digest, sink, ctx, err);
}

static void layout_free(struct pull_source *s)
{
	struct source_layout *l = (struct source_layout *)s;

	files_free(l->files);
	registry_document_done(&l->index);
	free(l->media_type);
	free(l);
}

static const struct pull_source_ops ops = {
	.head = head, .manifest = manifest, .blob = blob, .stream = stream, .free = layout_free
};

static int read_index(struct files *f, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *version = NULL;
	size_t n;
	int r = files_read(f, "oci-layout", OCI_DOCUMENT_MAX, &version, &n, err);

	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "no OCI layout: there is no file 'oci-layout'");
		return mlr_hint(err, "what docker save writes is read as docker-archive:FILE");
	}
	if (r == 0)
		r = oci_layout_check(version, n, err);
	if (r < 0)
		return mlr_wrap(err, "oci-layout");
	return files_read(f, "index.json", OCI_DOCUMENT_MAX, ret, len, err);
}

/* Choose: index.json itself is the image's index, or one of its entries is the image. */
static int settle(struct source_layout *l, struct bundle *b, char **text, size_t len, char **said,
	struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document doc = { 0 };
	const struct oci_index_entry *e;
	int r = oci_document_parse(
		*text, len, "application/vnd.oci.image.index.v1+json", NULL, &doc, err);

	if (r < 0)
		return mlr_wrap(err, "index.json");
	r = oci_layout_choose(&doc, b->which, b->want, &e, err);
	TRY(r);
	if (r == 1) {
		hash_digest(*text, len, l->digest);
		memcpy(l->index.digest, l->digest, OCI_DIGEST_SIZE);
		l->index.len = len;
		l->index.data = take_ptr(text);
		return 0;
	}
	memcpy(l->digest, e->blob.digest, OCI_DIGEST_SIZE);
	l->media_type = xstrdup(e->blob.media_type);
	l->size = e->blob.size;
	*said = e->name ? xstrdup(e->name) : NULL;
	return 0;
}

int pull_bundle_layout(
	struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err)
{
	struct source_layout *l;
	auto_free char *text = NULL;
	size_t len = 0;
	int r;

	TRY(read_index(b->files, &text, &len, err));
	l = xcalloc(1, sizeof(*l));
	l->source.ops = &ops;
	r = settle(l, b, &text, len, said, err);
	if (r < 0) {
		layout_free(&l->source);
		return r;
	}
	l->plain = b->plain;
	l->files = take_ptr(&b->files);
	*ret = &l->source;
	return 0;
}
