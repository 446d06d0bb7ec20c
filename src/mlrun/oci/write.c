#include "oci/write.h"

#include "base/base.h"
#include "base/json.h"
#include "oci/json.h"
#include "oci/platform.h"

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
	json_t *notes = annotations(like, len);
	json_t *root = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.manifest.v1+json", "config", descriptor(config),
		"layers", MLR_JSON_LIST(i, n, descriptor(&layers[i])));

	if (json_is_object(notes))
		json_object_set(root, "annotations", notes);
	json_decref(notes);
	return mlr_json_print(root, JSON_COMPACT);
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
	return mlr_json_print(json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
				      "application/vnd.oci.image.index.v1+json", "manifests",
				      MLR_JSON_LIST(i, n, index_entry(&items[i]))),
		JSON_COMPACT);
}

char *oci_save_write(const char *config, const char *tag, const struct strv *layers)
{
	return mlr_json_print(json_pack("[{s:s, s:o, s:o}]", "Config", config, "RepoTags",
				      tag ? json_pack("[s]", tag) : json_array(), "Layers",
				      mlr_json_texts(layers)),
		JSON_COMPACT);
}
