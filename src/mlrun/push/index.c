#include "push/index.h"

#include "oci/config.h"
#include "oci/manifest.h"
#include "registry/registry.h"

void index_items_done(struct index_items *l)
{
	free(l->v);
	*l = (struct index_items){ 0 };
}

static int add(struct index_items *l, const struct index_item *item, struct mlr_error *err)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].platform, item->platform) == 0)
			return mlr_fail(err, EEXIST, "two images are for %s: %s and %s",
				item->platform, l->v[i].digest, item->digest);
	*xadd(l->v, l->n) = *item;
	return 0;
}

static void set_item(
	struct index_item *i, const char *digest, const char *media_type, uint64_t size)
{
	memcpy(i->digest, digest, sizeof(i->digest));
	snprintf(i->media_type, sizeof(i->media_type), "%s", media_type);
	i->size = size;
}

int index_add_pushed(struct index_items *l, const struct push_result *r, const char *platform,
	struct mlr_error *err)
{
	struct index_item item = { 0 };

	set_item(&item, r->digest, r->media_type, r->manifest_size);
	snprintf(item.platform, sizeof(item.platform), "%s", platform);
	return add(l, &item, err);
}

/* The platform of a manifest is told by its configuration. */
static int add_manifest(struct index_items *l, struct registry *reg,
	const struct registry_document *d, const struct oci_document *doc, struct mlr_error *err)
{
	auto_call(oci_config_done) struct oci_config config = { 0 };
	auto_free char *text = NULL;
	struct index_item item = { 0 };
	struct oci_platform p;

	TRY(registry_blob_get(reg, doc->config.digest, doc->config.size, &text, err));
	TRY(oci_config_parse(text, doc->config.size, &config, err));
	oci_platform_set(&p, config.os, config.architecture, config.variant);
	oci_platform_print(&p, item.platform);
	set_item(&item, d->digest, doc->media_type, d->len);
	return add(l, &item, err);
}

static int add_entries(struct index_items *l, const struct oci_document *doc, struct mlr_error *err)
{
	for (size_t i = 0; i < doc->n_entries; i++) {
		const struct oci_index_entry *e = &doc->entries[i];
		struct index_item item = { 0 };

		if (!e->has_platform)
			continue;
		oci_platform_print(&e->platform, item.platform);
		set_item(&item, e->blob.digest, e->blob.media_type, e->blob.size);
		TRY(add(l, &item, err));
	}
	return 0;
}

int index_add_remote(struct index_items *l, const struct oci_ref *what,
	const struct push_options *opt, struct mlr_error *err)
{
	auto_registry struct registry *reg = registry_new(what, &opt->registry);
	auto_call(registry_document_done) struct registry_document d = { 0 };
	auto_call(oci_document_done) struct oci_document doc = { 0 };

	TRY(registry_manifest_get(reg, what->digest ? what->digest : what->tag, &d, err));
	TRY(oci_document_parse(d.data, d.len, d.content_type, NULL, &doc, err));
	return doc.kind == OCI_INDEX ? add_entries(l, &doc, err)
				     : add_manifest(l, reg, &d, &doc, err);
}

int index_push(const struct index_items *l, const struct oci_ref *to,
	const struct push_options *opt, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	auto_registry struct registry *reg = registry_new(to, &opt->registry);
	struct oci_index_item *items = xcalloc(l->n + 1, sizeof(*items));
	auto_free char *text = NULL;

	for (size_t i = 0; i < l->n; i++)
		items[i] = (struct oci_index_item){
			{ l->v[i].digest, l->v[i].media_type, l->v[i].size }, l->v[i].platform, NULL
		};
	text = oci_index_write(items, l->n);
	free(items);
	hash_digest(text, strlen(text), digest);
	return registry_manifest_put(reg, to->tag ? to->tag : digest,
		"application/vnd.oci.image.index.v1+json", text, strlen(text), err);
}
