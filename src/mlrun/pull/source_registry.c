#include "pull/source.h"

struct source_registry {
	struct pull_source source;
	struct registry *reg;
	char *name; /* the requested tag or digest */
	int is_digest;
};

static int head(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	struct source_registry *r = (struct source_registry *)s;

	if (r->is_digest) {
		digest[0] = '\0';
		strncat(digest, r->name, OCI_DIGEST_SIZE - 1);
		return 0;
	}
	return registry_manifest_head(r->reg, r->name, digest, err);
}

static int manifest(struct pull_source *s, const char *digest, struct registry_document *ret,
	struct mlr_error *err)
{
	struct source_registry *r = (struct source_registry *)s;

	return registry_manifest_get(r->reg, digest ? digest : r->name, ret, err);
}

static int blob(
	struct pull_source *s, const char *digest, uint64_t size, char **ret, struct mlr_error *err)
{
	return registry_blob_get(((struct source_registry *)s)->reg, digest, size, ret, err);
}

static int stream(struct pull_source *s, const char *digest, uint64_t size, registry_sink_fn sink,
	void *ctx, struct mlr_error *err)
{
	return registry_blob_stream(
		((struct source_registry *)s)->reg, digest, size, sink, ctx, err);
}

static int distrust(struct pull_source *s)
{
	return registry_distrust(((struct source_registry *)s)->reg);
}

static int resume(struct pull_source *s, const char *digest, uint64_t size, int from,
	registry_sink_fn sink, void *ctx, struct mlr_error *err)
{
	return registry_blob_resume(
		((struct source_registry *)s)->reg, digest, size, from, sink, ctx, err);
}

static void source_free(struct pull_source *s)
{
	struct source_registry *r = (struct source_registry *)s;

	registry_free(r->reg);
	free(r->name);
	free(r);
}

static const struct pull_source_ops ops = { .head = head,
	.manifest = manifest,
	.blob = blob,
	.stream = stream,
	.free = source_free,
	.distrust = distrust,
	.resume = resume };

int pull_source_registry(const struct oci_ref *ref, const struct registry_options *opt,
	struct pull_source **ret, struct mlr_error *err)
{
	struct source_registry *r = xcalloc(1, sizeof(*r));

	r->source.ops = &ops;
	r->reg = registry_new(ref, opt);
	r->is_digest = ref->digest != NULL;
	r->name = xstrdup(ref->digest ? ref->digest : ref->tag);
	*ret = &r->source;
	return 0;
}

int pull_source_distrust(struct pull_source *s, int r)
{
	return s->ops->distrust && (r == -EBADMSG || r == -EPROTO) ? s->ops->distrust(s) : 0;
}

void pull_source_free(struct pull_source *s)
{
	if (s)
		s->ops->free(s);
}
