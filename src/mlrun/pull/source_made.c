/* Images without a manifest in the file, for which one is made: docker save's, and a plain tar. */
#include "pull/bundle.h"

#include "oci/config.h"
#include "oci/digest.h"
#include "oci/layout.h"

struct made_layer {
	struct files_part part;
	char digest[OCI_DIGEST_SIZE]; /* the plain tar's diff ID */
};

struct source_made {
	struct pull_source source;
	const struct plain_options *plain;
	char *manifest, *config; /* text */
	size_t config_len;
	char manifest_digest[OCI_DIGEST_SIZE], config_digest[OCI_DIGEST_SIZE];
	struct made_layer *layers; /* n of them */
	size_t n;
};

static int head(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	memcpy(digest, ((struct source_made *)s)->manifest_digest, OCI_DIGEST_SIZE);
	return 0;
}

static int manifest(struct pull_source *s, const char *digest, struct registry_document *ret,
	struct mlr_error *err)
{
	struct source_made *m = (struct source_made *)s;

	if (digest && strcmp(digest, m->manifest_digest) != 0)
		return mlr_fail(err, ENOENT, "no manifest %s in it", digest);
	ret->data = xstrdup(m->manifest);
	ret->len = strlen(m->manifest);
	memcpy(ret->digest, m->manifest_digest, OCI_DIGEST_SIZE);
	return 0;
}

static int blob(
	struct pull_source *s, const char *digest, uint64_t size, char **ret, struct mlr_error *err)
{
	struct source_made *m = (struct source_made *)s;

	if (strcmp(digest, m->config_digest) != 0 || size != m->config_len)
		return mlr_fail(err, ENOENT, "no blob %s in it", digest);
	*ret = xmalloc(m->config_len + 1);
	memcpy(*ret, m->config, m->config_len + 1);
	return 0;
}

/* The state of a layer's output. */
struct outflow {
	struct hash *hash;
	uint64_t bytes;
	registry_sink_fn sink; /* NULL: only count and hash */
	void *ctx;
};

static int put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct outflow *o = ctx;

	o->bytes += len;
	if (o->hash)
		hash_update(o->hash, buf, len);
	return o->sink ? o->sink(o->ctx, buf, len, err) : 0;
}

static int stream(struct pull_source *s, const char *digest, uint64_t size, registry_sink_fn sink,
	void *ctx, struct mlr_error *err)
{
	struct source_made *m = (struct source_made *)s;
	auto_hash struct hash *hash = hash_new();
	struct outflow o = { .hash = hash, .sink = sink, .ctx = ctx };
	const struct made_layer *l = m->layers;
	char hex[HASH_HEX_SIZE];

	while (l < m->layers + m->n && strcmp(l->digest, digest) != 0)
		l++;
	if (l == m->layers + m->n)
		return mlr_fail(err, ENOENT, "no layer %s in it", digest);
	TRY(plain_stream(l->part.fd, l->part.offset, l->part.size, m->plain, put, &o, err));
	hash_final(hash, hex);
	if (o.bytes != size || strcmp(hex, oci_digest_hex(digest)) != 0)
		return mlr_fail(err, EBADMSG, "layer %s: its %" PRIu64 " bytes hash to sha256:%s",
			digest, o.bytes, hex);
	return 0;
}

static void made_free(struct pull_source *s)
{
	struct source_made *m = (struct source_made *)s;

	for (size_t i = 0; i < m->n; i++)
		files_part_done(&m->layers[i].part);
	free(m->layers);
	free(m->manifest);
	free(m->config);
	free(m);
}

static void made_cleanup(struct source_made **m)
{
	if (*m)
		made_free(&(*m)->source);
}

static const struct pull_source_ops ops = {
	.head = head, .manifest = manifest, .blob = blob, .stream = stream, .free = made_free
};

static struct source_made *made_new(const struct plain_options *plain, size_t layers)
{
	struct source_made *m = xcalloc(1, sizeof(*m));

	m->source.ops = &ops;
	m->plain = plain;
	m->layers = xcalloc(layers ? layers : 1, sizeof(*m->layers));
	return m;
}

/* A layer's plain size, known unless the layer is compressed. */
static int measure(const struct files_part *p, const struct plain_options *plain,
	unsigned long long *ret, struct mlr_error *err)
{
	struct outflow o = { 0 };
	char magic[8];
	size_t n = p->size < sizeof(magic) ? (size_t)p->size : sizeof(magic);
	int r;

	TRY(mlr_result(err, files_part_read(p, 0, magic, n), "read"));
	if (!plain_is_compressed(magic, n)) {
		*ret = p->size;
		return 0;
	}
	r = plain_stream(p->fd, p->offset, p->size, plain, put, &o, err);
	*ret = o.bytes;
	return r;
}

static void finish(
	struct source_made *m, const struct strv *diff_ids, const unsigned long long *sizes)
{
	m->manifest = oci_save_manifest(m->config_digest, m->config_len, diff_ids, sizes);
	hash_digest(m->manifest, strlen(m->manifest), m->manifest_digest);
}

static int take_layers(struct source_made *m, struct files *f, const struct oci_save_image *im,
	const struct strv *diff_ids, struct mlr_error *err)
{
	auto_free unsigned long long *sizes = xcalloc(diff_ids->n + 1, sizeof(*sizes));

	for (size_t i = 0; i < diff_ids->n; i++) {
		struct made_layer *l = &m->layers[m->n];
		int r = files_find(f, im->layers.v[i], &l->part, err);

		if (r < 0)
			return mlr_wrap(err, "layer %zu", i + 1);
		m->n++;
		memcpy(l->digest, diff_ids->v[i], OCI_DIGEST_SIZE);
		r = measure(&l->part, m->plain, &sizes[i], err);
		if (r < 0)
			return mlr_wrap(err, "layer %zu", i + 1);
	}
	finish(m, diff_ids, sizes);
	return 0;
}

/* If the file's name is the configuration's digest, "<hex>.json" or "blobs/sha256/<hex>", check
 * it. */
static int check_config_name(const struct source_made *m, const char *path, struct mlr_error *err)
{
	const char *base = path_base(path);

	if (strspn(base, "0123456789abcdef") != 64 || (base[64] && strcmp(base + 64, ".json") != 0))
		return 0;
	if (strncmp(base, oci_digest_hex(m->config_digest), 64) != 0)
		return mlr_fail(
			err, EBADMSG, "'%.200s': its bytes hash to %s", path, m->config_digest);
	return 0;
}

static int take_image(struct source_made **ret, struct bundle *b, const struct oci_save_image *im,
	struct mlr_error *err)
{
	auto_call(made_cleanup) struct source_made *m = made_new(b->plain, im->layers.n);
	auto_call(oci_config_done) struct oci_config c = { 0 };
	int r = files_read(b->files, im->config, OCI_DOCUMENT_MAX, &m->config, &m->config_len, err);

	if (r < 0)
		return mlr_wrap(err, "configuration");
	hash_digest(m->config, m->config_len, m->config_digest);
	r = check_config_name(m, im->config, err);
	if (r == 0)
		r = oci_config_parse(m->config, m->config_len, &c, err);
	if (r < 0)
		return mlr_wrap(err, "configuration");
	if (c.diff_ids.n != im->layers.n)
		return mlr_fail(err, EPROTO, "manifest.json has %zu layers, the configuration %zu",
			im->layers.n, c.diff_ids.n);
	r = take_layers(m, b->files, im, &c.diff_ids, err);
	if (r == 0)
		*ret = take_ptr(&m);
	return r;
}

int pull_bundle_docker(
	struct bundle *b, struct pull_source **ret, char **said, struct mlr_error *err)
{
	auto_call(oci_save_done) struct oci_save save = { 0 };
	const struct oci_save_image *im;
	struct source_made *m = NULL;
	auto_free char *text = NULL;
	const char *tag = NULL;
	size_t len = 0;
	int r = files_read(b->files, "manifest.json", OCI_DOCUMENT_MAX, &text, &len, err);

	if (r == -ENOENT) {
		mlr_fail(err, ENOENT,
			"not what docker save writes: there is no file 'manifest.json'");
		return mlr_hint(err, "an OCI layout is read as oci-archive:FILE or oci:DIRECTORY");
	}
	if (r == 0)
		r = oci_save_parse(text, len, &save, err);
	if (r < 0)
		return mlr_wrap(err, "manifest.json");
	TRY(oci_save_choose(&save, b->which, &im, &tag, err));
	TRY(take_image(&m, b, im, err));
	*said = tag ? xstrdup(tag) : NULL;
	files_free(take_ptr(&b->files)); /* the layers have their own descriptors */
	*ret = &m->source;
	return 0;
}

static int take_tar(struct source_made *m, int fd, struct strv *diff_ids, unsigned long long *size,
	struct mlr_error *err)
{
	auto_hash struct hash *hash = hash_new();
	struct outflow o = { .hash = hash };
	struct made_layer *l = m->layers;
	off_t end;
	int r;

	l->part.fd = plain_open(fd, m->plain, err);
	if (l->part.fd < 0)
		return l->part.fd;
	m->n = 1;
	r = files_check_end(l->part.fd, m->plain, err); /* no digest would show a cut */
	TRY(r);
	end = lseek(l->part.fd, 0, SEEK_END);
	if (end < 0)
		return mlr_fail_errno(err, "seek");
	l->part.size = (uint64_t)end;
	TRY(plain_stream(l->part.fd, 0, l->part.size, m->plain, put, &o, err));
	memcpy(l->digest, "sha256:", 7);
	hash_final(hash, l->digest + 7);
	strv_add(diff_ids, l->digest);
	*size = o.bytes;
	return 0;
}

int pull_bundle_rootfs(int fd, const struct oci_platform *platform,
	const struct plain_options *plain, struct pull_source **ret, struct mlr_error *err)
{
	auto_call(made_cleanup) struct source_made *m = made_new(plain, 1);
	auto_strv struct strv diff_ids = STRV_INIT;
	unsigned long long size = 0;

	TRY(take_tar(m, fd, &diff_ids, &size, err));
	m->config = xasprintf("{\"architecture\":\"%s\",\"os\":\"%s\",%s%s%s\"config\":{},"
			      "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]}}",
		platform->arch, platform->os, *platform->variant ? "\"variant\":\"" : "",
		platform->variant, *platform->variant ? "\"," : "", diff_ids.v[0]);
	m->config_len = strlen(m->config);
	hash_digest(m->config, m->config_len, m->config_digest);
	finish(m, &diff_ids, &size);
	*ret = &take_ptr(&m)->source;
	return 0;
}
