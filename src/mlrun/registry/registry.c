#include "registry/registry.h"

#include "oci/manifest.h"
#include "registry/buffer.h"
#include "registry/request.h"

/* "cache.example:5000/dockerhub" is a host and a prefix for the repository. */
static struct endpoint *new_mirror(
	const char *mirror, const char *repository, const struct registry_options *opt)
{
	size_t n = strcspn(mirror, "/");
	auto_free char *host = xstrndup(mirror, n), *below = NULL;
	const char *prefix = mirror + n + strspn(mirror + n, "/");
	size_t len = strlen(prefix);

	while (len > 0 && prefix[len - 1] == '/')
		len--;
	below = xasprintf("%.*s%s%s", (int)len, prefix, len > 0 ? "/" : "", repository);
	return endpoint_new(host, below, 1, opt);
}

struct registry *registry_new(const struct oci_ref *ref, const struct registry_options *opt)
{
	struct registry *r = xcalloc(1, sizeof(*r));
	auto_free char *section = xasprintf("registry %s", ref->registry);
	auto_strv struct strv mirrors = STRV_INIT;

	r->opt = *opt;
	r->name = xstrdup(ref->registry);
	r->repository = xstrdup(ref->repository);
	if (opt->config)
		config_list(opt->config, section, "mirror", &mirrors);
	r->endpoints = xcalloc(mirrors.n + 1, sizeof(struct endpoint *));
	for (size_t i = 0; i < mirrors.n; i++)
		r->endpoints[r->n++] = new_mirror(mirrors.v[i], ref->repository, opt);
	r->endpoints[r->n++] = endpoint_new(ref->registry, ref->repository, 0, opt);
	return r;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		endpoint_free(r->endpoints[i]);
	free(r->endpoints);
	free(r->name);
	free(r->repository);
	free(r);
}

void registry_document_done(struct registry_document *d)
{
	free(d->data);
	free(d->content_type);
	*d = (struct registry_document){ 0 };
}

/* The state of a manifest's download. */
struct fetch {
	struct buffer b;
	const char *reference; /* tag or digest */
	const char *what;
	char digest[OCI_DIGEST_SIZE]; /* of the bytes received */
};

static int end_fetch(void *ctx, struct http_exchange *x, struct mlr_error *err)
{
	struct fetch *f = ctx;
	const char *said = x->digest && *x->digest ? x->digest : NULL; /* some proxies empty it */
	const char *want = strchr(f->reference, ':') ? f->reference : said;

	if (!f->b.data)
		return mlr_fail(err, EPROTO, "%s: the answer is empty", f->what);
	hash_digest(f->b.data, f->b.len, f->digest);
	if (want && strcmp(want, f->digest) != 0)
		return mlr_fail(err, EBADMSG, "%s: the registry's bytes hash to %s, not to %.100s",
			f->what, f->digest, want);
	return 0;
}

static char *describe(const char *reference)
{
	return strchr(reference, ':') ? xasprintf("manifest %s", reference)
				      : xasprintf("tag '%s'", reference);
}

int registry_manifest_head(
	struct registry *r, const char *tag, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("manifests/%s", tag), *what = describe(tag);
	struct request q = { .path = path, .what = what, .head = 1, .want_manifest = 1 };

	TRY(request_run(r, &q, &x, err));
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
	auto_free char *path = xasprintf("manifests/%s", reference), *what = describe(reference);
	struct fetch f = {
		.reference = reference, .what = what, .b = BUFFER_INIT(OCI_DOCUMENT_MAX)
	};
	struct request q = { .path = path,
		.what = what,
		.want_manifest = 1,
		.begin = buffer_begin,
		.end = end_fetch,
		.sink = buffer_put,
		.ctx = &f };
	int r2 = request_run(r, &q, &x, err);

	if (r2 < 0) {
		buffer_done(&f.b);
		return r2;
	}
	memcpy(ret->digest, f.digest, sizeof(f.digest));
	ret->len = f.b.len;
	ret->data = f.b.data;
	ret->content_type = take_ptr(&x.content_type);
	return 0;
}

/* Only the status of "/v2/" matters. */
static int ignore(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	return 0;
}

int registry_login(struct registry *r, const char *user, const char *password, int *asked,
	struct mlr_error *err)
{
	struct endpoint *e = r->endpoints[r->n - 1];
	const struct credential c = { .user = (char *)user, .password = (char *)password };
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	struct request q = { .what = "login", .is_root = 1, .no_mirrors = 1, .sink = ignore };
	char *header;
	int res;

	auth_set(e->auth, &c);
	res = request_run(r, &q, &x, err);
	if (res == -EACCES) {
		char *hint = strchr(err->text, '\n');

		if (hint)
			*hint = '\0';
		return mlr_hint(err,
			"a wrong user name or password? Many registries want an access token in "
			"place of the password");
	}
	if (res < 0)
		return res;
	header = auth_header(e->auth, e->bases[e->at]);
	*asked = header != NULL;
	credential_free_secret(header);
	return 0;
}
