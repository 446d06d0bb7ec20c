#include "pull/resolve.h"

#define DEPTH_MAX 3 /* nested indexes; the specification allows them, but they are rare */

void resolve_done(struct resolved *r)
{
	registry_document_done(&r->index);
	registry_document_done(&r->manifest);
	oci_document_done(&r->layers);
	free(r->config_json);
	oci_config_done(&r->config);
	*r = (struct resolved){ 0 };
}

/* Follow one entry of the index in *doc; *doc and *parsed become its target. */
static int descend(struct pull_source *source, const struct oci_platform *want,
	struct registry_document *doc, struct oci_document *parsed, struct resolved *res,
	struct mlr_error *err)
{
	auto_call(registry_document_done) struct registry_document next = { 0 };
	struct oci_document next_parsed = { 0 };
	const struct oci_index_entry *e;
	int r;

	TRY(oci_index_choose(parsed, want, &e, err));
	TRY(source->ops->manifest(source, e->blob.digest, &next, err));
	if (next.len != e->blob.size)
		return mlr_fail(err, EBADMSG,
			"manifest %s: %zu bytes instead of the %" PRIu64 " that the index says",
			e->blob.digest, next.len, e->blob.size);
	r = oci_document_parse(
		next.data, next.len, next.content_type, e->blob.media_type, &next_parsed, err);
	if (r < 0)
		return mlr_wrap(err, "manifest %s", e->blob.digest);

	if (e->has_platform)
		oci_platform_print(&e->platform, res->platform);
	oci_document_done(parsed);
	*parsed = next_parsed;
	/* The tag refers to the outermost index; inner ones are only steps. */
	if (!res->index.data)
		res->index = *doc;
	else
		registry_document_done(doc);
	*doc = take_struct(&next, { 0 });
	return 0;
}

static int get_manifest(struct pull_source *source, const struct oci_platform *want,
	struct resolved *res, struct mlr_error *err)
{
	int r;

	TRY(source->ops->manifest(source, NULL, &res->manifest, err));
	r = oci_document_parse(res->manifest.data, res->manifest.len, res->manifest.content_type,
		NULL, &res->layers, err);
	if (r < 0)
		return mlr_wrap(err, "manifest %s", res->manifest.digest);
	for (int depth = 0; res->layers.kind == OCI_INDEX; depth++) {
		if (depth == DEPTH_MAX)
			return mlr_fail(
				err, ENOTSUP, "more than %d indexes within each other", DEPTH_MAX);
		TRY(descend(source, want, &res->manifest, &res->layers, res, err));
	}
	return 0;
}

/* Ignore variants, which configurations often omit; the index has chosen one. */
static int check_platform(
	struct resolved *res, const struct oci_platform *want, struct mlr_error *err)
{
	const struct oci_config *c = &res->config;
	char wanted[OCI_PLATFORM_SIZE], is[OCI_PLATFORM_SIZE];
	struct oci_platform p;

	oci_platform_set(&p, c->os, c->architecture, c->variant);
	oci_platform_print(&p, is);
	oci_platform_print(want, wanted);
	if (strcmp(p.os, want->os) != 0 || strcmp(p.arch, want->arch) != 0) {
		mlr_fail(err, ENOTSUP, "the image is for %s, not for %s", is, wanted);
		return mlr_hint(
			err, "--platform %s pulls it nevertheless, to be run elsewhere", is);
	}
	if (!*res->platform)
		memcpy(res->platform, is, sizeof(is));
	return 0;
}

static int get_config(struct pull_source *source, const struct oci_platform *want,
	struct resolved *res, struct mlr_error *err)
{
	const struct oci_descriptor *d = &res->layers.config;

	if (source->ops->blob(source, d->digest, d->size, &res->config_json, err) < 0)
		return mlr_wrap(err, "configuration");
	if (oci_config_parse(res->config_json, d->size, &res->config, err) < 0)
		return mlr_wrap(err, "configuration %s", d->digest);
	if (res->config.diff_ids.n != res->layers.n_layers)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			res->layers.n_layers, res->config.diff_ids.n);
	if (res->layers.n_layers == 0)
		return mlr_fail(
			err, ENOTSUP, "the image has no layers: there is nothing to run in it");
	return check_platform(res, want, err);
}

int resolve(struct pull_source *source, const struct oci_platform *want, struct resolved *ret,
	struct mlr_error *err)
{
	auto_call(resolve_done) struct resolved res = { 0 };

	if (strcmp(want->os, "linux") != 0)
		return mlr_fail(err, ENOTSUP, "images for '%s' cannot be run, only those for linux",
			want->os);
	TRY(get_manifest(source, want, &res, err));
	TRY(get_config(source, want, &res, err));
	*ret = take_struct(&res, { 0 });
	return 0;
}
