#include "oci/manifest.h"

#include "base/json.h"
#include "oci/digest.h"
#include "oci/json.h"

/*
 * Reads the media types in documents and HTTP headers.
 */

static const struct {
	const char *type;
	enum oci_kind kind;
} kinds[] = {
	{ "application/vnd.oci.image.manifest.v1+json", OCI_MANIFEST },
	{ "application/vnd.docker.distribution.manifest.v2+json", OCI_MANIFEST },
	{ "application/vnd.oci.image.index.v1+json", OCI_INDEX },
	{ "application/vnd.docker.distribution.manifest.list.v2+json", OCI_INDEX },
};

/* The common name of an artifact with this type, "a Helm chart"; NULL if unknown. */
static const char *oci_media_artifact(const char *type)
{
	static const struct {
		const char *prefix, *words;
	} known[] = {
		{ "application/vnd.cncf.helm.", "a Helm chart" },
		{ "application/vnd.sylabs.sif.", "a Singularity image (SIF)" },
		{ "application/vnd.docker.plugin.", "a Docker plugin" },
		{ "application/vnd.dev.cosign.", "a signature" },
		{ "application/vnd.dev.sigstore.", "a signature" },
		{ "application/vnd.cncf.notary.", "a signature" },
		{ "application/vnd.in-toto", "an attestation" },
		{ "application/vnd.buildkit.cacheconfig.", "a build cache" },
		{ "application/vnd.wasm.", "a WebAssembly module" },
		{ "application/wasm", "a WebAssembly module" },
		{ "application/vnd.module.wasm.", "a WebAssembly module" },
		{ "application/vnd.unknown.config.", "files pushed by ORAS" },
		{ "application/vnd.oci.empty.", "an artifact without a configuration" },
		{ "application/vnd.oci.artifact.", "an artifact" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strncmp(type, known[i].prefix, strlen(known[i].prefix)) == 0)
			return known[i].words;
	return NULL;
}

/* Manifest or index? Returns 0, or -ENOTSUP for other types; the error names schema 1. */
static int oci_media_kind(const char *type, enum oci_kind *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(type, kinds[i].type) == 0) {
			*ret = kinds[i].kind;
			return 0;
		}
	}
	if (strncmp(type, "application/vnd.docker.distribution.manifest.v1+", 48) == 0)
		return mlr_fail(err, ENOTSUP,
			"the image is in Docker's schema 1 of 2014, which is not supported: push "
			"it again with a current tool");
	if (oci_media_artifact(type))
		return mlr_fail(err, ENOTSUP, "this is %s, not a container image ('%.100s')",
			oci_media_artifact(type), type);
	return mlr_fail(err, ENOTSUP,
		"media type '%.100s' is neither an image manifest nor an index", type);
}

/* A layer's compression. Returns 0, or -ENOTSUP: the layer is foreign, encrypted or unknown. */
static int oci_media_layer(const char *type, enum oci_compression *ret, struct mlr_error *err)
{
	if (oci_compression_of_type(type, ret) == 0)
		return 0;
	if (strstr(type, "encrypted"))
		return mlr_fail(
			err, ENOTSUP, "encrypted layers ('%.100s') are not supported", type);
	if (strstr(type, "foreign") || strstr(type, "nondistributable"))
		return mlr_fail(err, ENOTSUP,
			"foreign layers ('%.100s'), kept outside the registry, are not supported",
			type);
	return mlr_fail(err, ENOTSUP, "layers of media type '%.100s' are not supported", type);
}

/* Is this an image's configuration, so that the manifest is an image and no other artifact? */
static int oci_media_is_config(const char *type)
{
	return strcmp(type, "application/vnd.oci.image.config.v1+json") == 0 ||
		strcmp(type, "application/vnd.docker.container.image.v1+json") == 0;
}

/* A Content-Type header's bare type in lower case; NULL for a generic type. To free(). */
static char *oci_media_from_header(const char *content_type)
{
	static const char *const vague[] = { "", "application/json", "text/plain",
		"application/octet-stream", "binary/octet-stream" };
	auto_free char *type = NULL;

	if (!content_type)
		return NULL;
	content_type += strspn(content_type, " \t");
	type = xstrndup(content_type, strcspn(content_type, "; \t\r\n"));
	for (char *s = type; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s += 'a' - 'A';
	for (size_t i = 0; i < ARRAY_LEN(vague); i++)
		if (strcmp(type, vague[i]) == 0)
			return NULL;
	return take_ptr(&type);
}

/* More entries than any index has; the size of the document limits them, too. */
#define ENTRIES_MAX 4096

static int check_digest(const struct record_reader *r, void *member)
{
	const char *digest = *(char **)member;
	int e = oci_digest_check(digest, r->err);

	return e == 0 || e == -ENOTSUP ? e : record_wrong(r, "'%.100s' is not a digest", digest);
}

static const struct record_row descriptor_rows[] = {
	{ "mediaType", RECORD_TEXT, RECORD_AT(struct oci_descriptor, media_type),
		.flags = RECORD_MUST },
	{ "digest", RECORD_TEXT, RECORD_AT(struct oci_descriptor, digest), .flags = RECORD_MUST,
		.rule = check_digest },
	{ "size", RECORD_NUMBER, RECORD_AT(struct oci_descriptor, size), .flags = RECORD_MUST,
		.max = OCI_SIZE_MAX },
	{ NULL },
};

/* --- manifests ----------------------------------------------------------------- */

#define AT(member) RECORD_AT(struct oci_document, member)

/* A layer begins with its descriptor. */
static const struct record_row manifest_rows[] = {
	{ "config", RECORD_STRUCT, AT(config), .flags = RECORD_MUST, .rows = descriptor_rows },
	{ "layers", RECORD_LIST, AT(layers), .flags = RECORD_MUST, .rows = descriptor_rows,
		.item = sizeof(struct oci_layer),
		.count = offsetof(struct oci_document, n_layers) },
	{ NULL },
};

/* Refuse an artifact, with the best name for it: artifactType is more specific than an empty
 * configuration (image-spec, manifest.md, "Guidelines for Artifact Usage"). */
static int refuse_artifact(const struct record_reader *r, const json_t *root, const char *config)
{
	static const struct record_row rows[] = {
		{ "artifactType", RECORD_TEXT, .size = sizeof(char *) },
		{ NULL },
	};
	auto_free char *type = NULL;
	const char *words;

	TRY(record_read(r, rows, root, &type));
	words = type ? oci_media_artifact(type) : NULL;
	if (!words)
		words = oci_media_artifact(config);
	return mlr_fail(r->err, ENOTSUP, "this is %s, not a container image (%s '%.100s')",
		words ? words : "something else", type ? "it is of type" : "its configuration is",
		type ? type : config);
}

static int read_manifest(const struct record_reader *r, const json_t *root, struct oci_document *d)
{
	size_t n = json_array_size(json_object_get(root, "layers"));

	if (n > OCI_LAYERS_MAX)
		return mlr_fail(r->err, ENOTSUP, "%zu layers, the limit is %d", n, OCI_LAYERS_MAX);
	TRY(record_read(r, manifest_rows, root, d));
	if (!oci_media_is_config(d->config.media_type))
		return refuse_artifact(r, root, d->config.media_type);
	if (d->config.size > OCI_DOCUMENT_MAX)
		return mlr_fail(r->err, EFBIG, "config: %llu bytes, the limit is %u",
			(unsigned long long)d->config.size, OCI_DOCUMENT_MAX);
	for (size_t i = 0; i < d->n_layers; i++) {
		struct oci_layer *l = &d->layers[i];

		if (oci_media_layer(l->blob.media_type, &l->compression, r->err) < 0)
			return mlr_wrap(r->err, "layer %zu", i + 1);
		d->size += l->blob.size; /* 500 times 4 TiB fit in 64 bits */
	}
	return 0;
}

/* --- indexes ------------------------------------------------------------------- */

/* BuildKit stores provenance and SBOMs beside the images, with an unknown platform. */
static int is_attestation(const json_t *entry, const struct oci_index_entry *e)
{
	const json_t *type =
		json_object_get(json_object_get(entry, "annotations"), "vnd.docker.reference.type");

	if (json_is_string(type))
		return 1;
	return e->has_platform && strcmp(e->platform.os, "unknown") == 0 &&
		strcmp(e->platform.arch, "unknown") == 0;
}

static int read_platform(const struct record_reader *r, const json_t *v, void *to)
{
	struct platform {
		char *os, *arch, *variant;
	} p = { NULL, NULL, NULL };
	static const struct record_row rows[] = {
		{ "os", RECORD_TEXT, RECORD_AT(struct platform, os) },
		{ "architecture", RECORD_TEXT, RECORD_AT(struct platform, arch) },
		{ "variant", RECORD_TEXT, RECORD_AT(struct platform, variant) },
		{ NULL },
	};
	struct oci_index_entry *e = to;
	int failed = record_read(r, rows, v, &p);

	oci_platform_set(&e->platform, p.os, p.arch, p.variant);
	e->has_platform = 1;
	record_done(rows, &p);
	return failed;
}

/* In a layout an entry may have a name (image-layout.md, annotations.md). containerd and Docker put
 * the tag there, and the whole name in another annotation. */
static const struct record_row name_rows[] = {
	{ "org.opencontainers.image.ref.name", RECORD_TEXT,
		RECORD_AT(struct oci_index_entry, tag) },
	{ "io.containerd.image.name", RECORD_TEXT, RECORD_AT(struct oci_index_entry, name) },
	{ NULL },
};

static const struct record_row entry_rows[] = {
	{ "platform", RECORD_OWN, .read = read_platform },
	{ "annotations", RECORD_STRUCT, .rows = name_rows },
	{ NULL },
};

static void entry_done(struct oci_index_entry *e)
{
	record_done(descriptor_rows, &e->blob);
	record_done(name_rows, e);
}

static int read_entry(const struct record_reader *r, const json_t *v, void *to)
{
	struct oci_index_entry e = { 0 };
	struct oci_document *d = to;
	int failed = record_read(r, descriptor_rows, v, &e.blob);

	if (failed == 0)
		failed = record_read(r, entry_rows, v, &e);
	/* An entry of another kind, e.g. a signature, is skipped: the images beside it can be used.
	 */
	if (failed < 0 || oci_media_kind(e.blob.media_type, &e.kind, NULL) < 0 ||
		is_attestation(v, &e)) {
		entry_done(&e);
		return failed;
	}
	if (!e.name && e.tag)
		e.name = xstrdup(e.tag);
	*xadd(d->entries, d->n_entries) = e;
	return 0;
}

static const struct record_row index_rows[] = {
	{ "manifests", RECORD_OWN, .flags = RECORD_MUST | RECORD_EACH, .read = read_entry },
	{ NULL },
};

static int read_index(const struct record_reader *r, const json_t *root, struct oci_document *d)
{
	size_t n = json_array_size(json_object_get(root, "manifests"));

	if (n > ENTRIES_MAX)
		return record_wrong(r, "an index of %zu entries", n);
	return record_read(r, index_rows, root, d);
}

static const struct record_row type_rows[] = {
	{ "mediaType", RECORD_TEXT, AT(media_type) },
	{ NULL },
};

/* --- documents ----------------------------------------------------------------- */

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
	const char *own = d->media_type, *type;

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
	if (type != own)
		set_ptr(&d->media_type, xstrdup(type));
	return 0;
}

void oci_document_done(struct oci_document *d)
{
	record_done(type_rows, d);
	record_done(manifest_rows, d);
	free_all(d->entries, d->n_entries, entry_done);
	*d = (struct oci_document){ 0 };
}

int oci_document_parse(const char *json, size_t len, const char *content_type,
	const char *descriptor_type, struct oci_document *ret, struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document d = { 0 };
	const struct record_reader r = { .manner = RECORD_PRINTABLE, .err = err };
	json_auto_t *root = NULL;

	TRY(oci_json_load(json, len, OCI_DOCUMENT_MAX, &root, err));
	TRY(check_version(root, err));
	TRY(record_read(&r, type_rows, root, &d));
	TRY(settle_type(root, content_type, descriptor_type, &d, err));
	TRY(d.kind == OCI_MANIFEST ? read_manifest(&r, root, &d) : read_index(&r, root, &d));
	*ret = take_struct(&d, { 0 });
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
