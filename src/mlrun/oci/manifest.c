#include "oci/manifest.h"

#include "base/base.h"
#include "oci/digest.h"
#include "oci/json.h"
#include "oci/media.h"

/* More entries than any index has; the size of the document limits them, too. */
#define ENTRIES_MAX 4096

static int parse_descriptor(json_t *obj, struct oci_descriptor *ret, struct mlr_error *err)
{
	const char *type, *digest;
	int r;

	TRY(oci_json_text(obj, "mediaType", &type, err));
	TRY(oci_json_text(obj, "digest", &digest, err));
	if (!type || !digest)
		return mlr_fail(
			err, EPROTO, "a descriptor without \"%s\"", type ? "digest" : "mediaType");

	r = oci_digest_check(digest, err);
	if (r < 0)
		return r == -ENOTSUP ? r
				     : mlr_fail(err, EPROTO, "'%.100s' is not a digest", digest);
	TRY(oci_json_size(obj, "size", &ret->size, err));
	ret->media_type = xstrdup(type);
	ret->digest = xstrdup(digest);
	return 0;
}

static void descriptor_done(struct oci_descriptor *d)
{
	free(d->digest);
	free(d->media_type);
}

static void entry_done(struct oci_index_entry *e)
{
	descriptor_done(&e->blob);
	free(e->name);
	free(e->tag);
}

static int parse_layers(json_t *list, struct oci_document *d, struct mlr_error *err)
{
	json_t *v;
	size_t i;

	if (json_array_size(list) > OCI_LAYERS_MAX)
		return mlr_fail(err, ENOTSUP, "%zu layers, the limit is %d", json_array_size(list),
			OCI_LAYERS_MAX);
	d->layers = xcalloc(json_array_size(list), sizeof(*d->layers));
	json_array_foreach(list, i, v) {
		struct oci_layer *l = &d->layers[d->n_layers++];
		int r;

		if (!json_is_object(v))
			return mlr_fail(err, EPROTO, "layer %zu is not an object", i + 1);
		r = parse_descriptor(v, &l->blob, err);
		if (r == 0)
			r = oci_media_layer(l->blob.media_type, &l->compression, err);
		if (r < 0)
			return mlr_wrap(err, "layer %zu", i + 1);
		d->size += l->blob.size; /* 500 times 4 TiB fit in 64 bits */
	}
	return 0;
}

/* Refuse an artifact, with the best name for it: artifactType is more specific than an empty
 * configuration (image-spec, manifest.md, "Guidelines for Artifact Usage"). */
static int refuse_artifact(json_t *root, const char *config, struct mlr_error *err)
{
	const char *type = NULL, *words;

	TRY(oci_json_text(root, "artifactType", &type, err));
	words = type ? oci_media_artifact(type) : NULL;
	if (!words)
		words = oci_media_artifact(config);
	return mlr_fail(err, ENOTSUP, "this is %s, not a container image (%s '%.100s')",
		words ? words : "something else", type ? "it is of type" : "its configuration is",
		type ? type : config);
}

static int parse_manifest(json_t *root, struct oci_document *d, struct mlr_error *err)
{
	json_t *config, *layers;
	int r;

	TRY(oci_json_object(root, "config", &config, err));
	TRY(oci_json_array(root, "layers", &layers, err));
	if (!config || !layers)
		return mlr_fail(
			err, EPROTO, "a manifest without \"%s\"", config ? "layers" : "config");

	r = parse_descriptor(config, &d->config, err);
	if (r < 0)
		return mlr_wrap(err, "config");
	if (!oci_media_is_config(d->config.media_type))
		return refuse_artifact(root, d->config.media_type, err);
	if (d->config.size > OCI_DOCUMENT_MAX)
		return mlr_fail(err, EFBIG, "config: %llu bytes, the limit is %u",
			(unsigned long long)d->config.size, OCI_DOCUMENT_MAX);
	return parse_layers(layers, d, err);
}

/* BuildKit stores provenance and SBOMs beside the images, with an unknown platform. */
static int is_attestation(json_t *entry, const struct oci_index_entry *e)
{
	json_t *type =
		json_object_get(json_object_get(entry, "annotations"), "vnd.docker.reference.type");

	if (json_is_string(type))
		return 1;
	return e->has_platform && strcmp(e->platform.os, "unknown") == 0 &&
		strcmp(e->platform.arch, "unknown") == 0;
}

static int parse_platform(json_t *entry, struct oci_index_entry *e, struct mlr_error *err)
{
	const char *os, *arch, *variant;
	json_t *p;
	int r;

	r = oci_json_object(entry, "platform", &p, err);
	if (r < 0 || !p)
		return r;
	r = oci_json_text(p, "os", &os, err);
	if (r == 0)
		r = oci_json_text(p, "architecture", &arch, err);
	if (r == 0)
		r = oci_json_text(p, "variant", &variant, err);
	if (r < 0)
		return mlr_wrap(err, "platform");
	oci_platform_set(&e->platform, os, arch, variant);
	e->has_platform = 1;
	return 0;
}

/* In a layout an entry may have a name (image-layout.md, annotations.md). containerd and Docker put
 * the tag there, and the whole name in another annotation. */
static int parse_name(json_t *entry, struct oci_index_entry *e, struct mlr_error *err)
{
	const char *name, *full;
	json_t *notes;
	int r = oci_json_object(entry, "annotations", &notes, err);

	if (r == 0)
		r = oci_json_text(notes, "org.opencontainers.image.ref.name", &name, err);
	if (r == 0)
		r = oci_json_text(notes, "io.containerd.image.name", &full, err);
	if (r < 0)
		return mlr_wrap(err, "annotations");
	e->tag = name ? xstrdup(name) : NULL;
	if (full || name)
		e->name = xstrdup(full ? full : name);
	return 0;
}

static int parse_entry(json_t *v, struct oci_document *d, struct mlr_error *err)
{
	struct oci_index_entry e = { 0 };
	int r;

	if (!json_is_object(v))
		return mlr_fail(err, EPROTO, "not an object");
	r = parse_descriptor(v, &e.blob, err);
	if (r == 0)
		r = parse_platform(v, &e, err);
	if (r == 0)
		r = parse_name(v, &e, err);
	/* An entry of another kind, e.g. a signature, is skipped: the images beside it can be used.
	 */
	if (r == 0 && oci_media_kind(e.blob.media_type, &e.kind, NULL) == 0 &&
		!is_attestation(v, &e)) {
		d->entries[d->n_entries++] = e;
		return 0;
	}
	entry_done(&e);
	return r;
}

static int parse_index(json_t *root, struct oci_document *d, struct mlr_error *err)
{
	json_t *list, *v;
	size_t i;
	int r;

	r = oci_json_array(root, "manifests", &list, err);
	if (r < 0)
		return r;
	if (!list)
		return mlr_fail(err, EPROTO, "an index without \"manifests\"");
	if (json_array_size(list) > ENTRIES_MAX)
		return mlr_fail(err, EPROTO, "an index of %zu entries", json_array_size(list));

	d->entries = xcalloc(json_array_size(list), sizeof(*d->entries));
	json_array_foreach(list, i, v) {
		r = parse_entry(v, d, err);
		if (r < 0)
			return mlr_wrap(err, "index entry %zu", i + 1);
	}
	return 0;
}

static int check_version(json_t *root, struct mlr_error *err)
{
	json_t *v = json_object_get(root, "schemaVersion");

	if (json_is_integer(v) && json_integer_value(v) == 1)
		return oci_media_kind("application/vnd.docker.distribution.manifest.v1+json",
			&(enum oci_kind){ 0 }, err);
	if (!json_is_integer(v) || json_integer_value(v) != 2)
		return mlr_fail(err, EPROTO, "\"schemaVersion\" is not 2");
	return 0;
}

/* Determine the media type. The document, the HTTP header and the descriptor must agree, if they
 * give one. */
static int settle_type(json_t *root, const char *header, const char *descriptor,
	struct oci_document *d, struct mlr_error *err)
{
	auto_free char *served = oci_media_from_header(header);
	int has_layers = json_object_get(root, "layers") || json_object_get(root, "config") ||
		json_object_get(root, "fsLayers");
	int has_entries = json_object_get(root, "manifests") != NULL;
	const char *own, *type;

	TRY(oci_json_text(root, "mediaType", &own, err));
	if (has_layers && has_entries)
		return mlr_fail(err, EPROTO, "the document is a manifest and an index at once");
	if (own && served && strcmp(own, served) != 0)
		return mlr_fail(err, EPROTO, "served as '%.100s' but says that it is '%.100s'",
			served, own);
	type = own ? own : served;
	if (type && descriptor && strcmp(type, descriptor) != 0)
		return mlr_fail(
			err, EPROTO, "announced as '%.100s' but is '%.100s'", descriptor, type);
	if (!type)
		type = descriptor;
	if (!type)
		type = has_entries ? "application/vnd.oci.image.index.v1+json"
				   : "application/vnd.oci.image.manifest.v1+json";

	TRY(oci_media_kind(type, &d->kind, err));
	if (d->kind == OCI_MANIFEST ? has_entries : has_layers)
		return mlr_fail(err, EPROTO, "the contents are not those of '%s'", type);
	d->media_type = xstrdup(type);
	return 0;
}

void oci_document_done(struct oci_document *d)
{
	free(d->media_type);
	descriptor_done(&d->config);
	for (size_t i = 0; i < d->n_layers; i++)
		descriptor_done(&d->layers[i].blob);
	free(d->layers);
	for (size_t i = 0; i < d->n_entries; i++)
		entry_done(&d->entries[i]);
	free(d->entries);
	*d = (struct oci_document)OCI_DOCUMENT_INIT;
}

int oci_document_parse(const char *json, size_t len, const char *content_type,
	const char *descriptor_type, struct oci_document *ret, struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document d = OCI_DOCUMENT_INIT;
	json_auto_t *root = NULL;
	int r;

	r = oci_json_load(json, len, OCI_DOCUMENT_MAX, &root, err);
	if (r == 0)
		r = check_version(root, err);
	if (r == 0)
		r = settle_type(root, content_type, descriptor_type, &d, err);
	if (r == 0)
		r = d.kind == OCI_MANIFEST ? parse_manifest(root, &d, err)
					   : parse_index(root, &d, err);
	if (r < 0)
		return r;

	*ret = d;
	d = (struct oci_document)OCI_DOCUMENT_INIT;
	return 0;
}

static char *list_platforms(const struct oci_document *index)
{
	auto_strv struct strv names = STRV_INIT;

	for (size_t i = 0; i < index->n_entries; i++) {
		char name[OCI_PLATFORM_SIZE];

		if (!index->entries[i].has_platform)
			continue;
		oci_platform_print(&index->entries[i].platform, name);
		strv_add(&names, name);
	}
	return strv_join_within(&names, 400, ", ");
}

int oci_index_choose(const struct oci_document *index, const struct oci_platform *want,
	const struct oci_index_entry **ret, struct mlr_error *err)
{
	const struct oci_index_entry *best = NULL, *nameless = NULL;
	char name[OCI_PLATFORM_SIZE];
	int best_score = 0;

	for (size_t i = 0; i < index->n_entries; i++) {
		const struct oci_index_entry *e = &index->entries[i];
		int score = e->has_platform ? oci_platform_match(want, &e->platform) : 0;

		if (!e->has_platform && !nameless)
			nameless = e;
		if (score > best_score) {
			best = e;
			best_score = score;
		}
	}
	if (!best)
		best = nameless;
	if (!best) {
		auto_free char *there = list_platforms(index);

		oci_platform_print(want, name);
		return mlr_fail(err, ENOENT, "the image does not exist for %s; it does for: %s",
			name, *there ? there : "nothing");
	}
	*ret = best;
	return 0;
}
