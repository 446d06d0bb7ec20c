#include "pull/steps.h"

#include "oci/config.h"
#include "oci/manifest.h"
#include "pull/layer.h"

struct pull_steps {
	struct pull_source *source;
	struct oci_document manifest;
	struct oci_config config; /* has a diff ID for each layer */
	struct oci_step *v;
	size_t n;
};

void pull_steps_free(struct pull_steps *s)
{
	if (!s)
		return;
	pull_source_free(s->source);
	oci_document_done(&s->manifest);
	oci_config_done(&s->config);
	free(s->v);
	free(s);
}

MLR_CLEANUP(steps_cleanup, struct pull_steps *, pull_steps_free);

static int read_config(struct pull_steps *s, struct mlr_error *err)
{
	const struct oci_descriptor *d = &s->manifest.config;
	auto_free char *text = NULL;

	if (s->manifest.kind != OCI_MANIFEST)
		return mlr_fail(err, EPROTO, "it is an index, not what --cache-to makes");
	TRY(s->source->ops->blob(s->source, d->digest, d->size, &text, err));
	TRY(oci_config_parse(text, d->size, &s->config, err));
	TRY(oci_steps_parse(text, d->size, &s->v, &s->n, err));
	if (s->n == 0 || s->config.diff_ids.n != s->manifest.n_layers)
		return mlr_fail(err, EPROTO, "it is not what --cache-to makes");
	return 0;
}

int pull_steps_open(const struct oci_ref *ref, const struct registry_options *opt,
	struct pull_steps **ret, struct mlr_error *err)
{
	auto_call(registry_document_done) struct registry_document doc = { 0 };
	auto_call(steps_cleanup) struct pull_steps *s = xcalloc(1, sizeof(*s));

	TRY(pull_source_registry(ref, opt, &s->source, err));
	TRY(s->source->ops->manifest(s->source, NULL, &doc, err));
	TRY(oci_document_parse(doc.data, doc.len, doc.content_type, NULL, &s->manifest, err));
	TRY(read_config(s, err));
	*ret = take_ptr(&s);
	return 0;
}

const struct oci_step *pull_steps_find(const struct pull_steps *s, const char *key)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].key, key) == 0)
			return &s->v[i];
	return NULL;
}

int pull_steps_bring(
	struct pull_steps *s, struct store *st, const struct oci_step *step, struct mlr_error *err)
{
	uint64_t received = 0, devices;
	size_t i = 0;
	int r;

	if (!*step->diff_id)
		return 0;
	while (i < s->config.diff_ids.n && strcmp(s->config.diff_ids.v[i], step->diff_id) != 0)
		i++;
	if (i == s->config.diff_ids.n)
		return mlr_fail(err, EPROTO, "layer %s is not among its layers", step->diff_id);
	r = pull_layer_bring(st, s->source, &s->manifest.layers[i], LAYER_TREE, step->diff_id,
		&received, &devices, err);
	return r < 0 ? mlr_wrap(err, "layer %s", step->diff_id) : 0;
}
