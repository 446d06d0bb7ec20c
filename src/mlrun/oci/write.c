#include "oci/write.h"

#include "base/base.h"
#include "oci/json.h"
#include "oci/platform.h"

/* Print a value, and free it. Jansson keeps the order in which members were set. */
static char *print(json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	json_decref(value);
	if (!text)
		mlr_oom();
	return text;
}

static json_t *descriptor(const struct oci_descriptor *d)
{
	return json_pack("{s:s, s:s, s:I}", "mediaType", d->media_type, "digest", d->digest, "size",
		(json_int_t)d->size);
}

/* The annotations of a manifest, or NULL. */
static json_t *annotations(const char *like, size_t len)
{
	json_auto_t *root = NULL;

	if (!like || oci_json_load(like, len, OCI_DOCUMENT_MAX, &root, NULL) < 0)
		return NULL;
	return json_incref(json_object_get(root, "annotations"));
}

char *oci_manifest_write(const struct oci_descriptor *config, const struct oci_descriptor *layers,
	size_t n, const char *like, size_t len)
{
	json_t *list = json_array(), *notes = annotations(like, len), *root;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, descriptor(&layers[i]));
	root = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.manifest.v1+json", "config", descriptor(config),
		"layers", list);
	if (json_is_object(notes))
		json_object_set(root, "annotations", notes);
	json_decref(notes);
	return print(root);
}

static json_t *index_entry(const struct oci_index_item *i)
{
	json_t *entry = descriptor(&i->manifest);
	struct oci_platform p;

	if (oci_platform_parse(i->platform, &p, NULL) == 0) {
		json_t *o = json_pack("{s:s, s:s}", "architecture", p.arch, "os", p.os);

		if (*p.variant)
			json_object_set_new(o, "variant", json_string(p.variant));
		json_object_set_new(entry, "platform", o);
	}
	if (i->name)
		json_object_set_new(entry, "annotations",
			json_pack("{s:s}", "org.opencontainers.image.ref.name", i->name));
	return entry;
}

char *oci_index_write(const struct oci_index_item *items, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, index_entry(&items[i]));
	return print(json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.index.v1+json", "manifests", list));
}

char *oci_save_write(const char *config, const char *tag, const struct strv *layers)
{
	json_t *tags = json_array(), *list = json_array();

	if (tag)
		json_array_append_new(tags, json_string(tag));
	for (size_t i = 0; i < layers->n; i++)
		json_array_append_new(list, json_string(layers->v[i]));
	return print(
		json_pack("[{s:s, s:o, s:o}]", "Config", config, "RepoTags", tags, "Layers", list));
}
