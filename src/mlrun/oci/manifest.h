/*
 * Parses manifests and indexes (OCI image-spec, manifest.md and image-index.md; Docker's "Image
 * Manifest Version 2, Schema 2" and its manifest list are the same documents under other media
 * types).
 *
 * Only a descriptor's type, digest, size, platform and annotations are read: `urls` would lead to
 * other hosts (CVE-2020-15157), and bytes in `data` are fetched by their digest like all others.
 *
 * Documents are untrusted. The Content-Type, the descriptor that led to a document, its own
 * mediaType and its contents must agree on its type (CVE-2021-41190).
 */
#pragma once

#include "oci/compression.h"
#include "oci/platform.h"

#define OCI_DOCUMENT_MAX (4u << 20) /* bytes; distribution-spec, "Pushing Manifests" */
#define OCI_LAYERS_MAX   500        /* Linux's limit of lower directories in one overlay */

/* The Accept header: all four types, since a registry hides those that it does not list. */
#define OCI_ACCEPT_MANIFESTS                                     \
	"application/vnd.oci.image.manifest.v1+json, "           \
	"application/vnd.oci.image.index.v1+json, "              \
	"application/vnd.docker.distribution.manifest.v2+json, " \
	"application/vnd.docker.distribution.manifest.list.v2+json"

enum oci_kind { OCI_MANIFEST, OCI_INDEX };

struct oci_descriptor {
	char *digest;     /* checked, "sha256:…" */
	char *media_type; /* never NULL */
	uint64_t size;    /* bytes */
};

struct oci_layer {
	struct oci_descriptor blob;
	enum oci_compression compression;
};

struct oci_index_entry {
	struct oci_descriptor blob;
	enum oci_kind kind;
	int has_platform;
	struct oci_platform platform;
	/* The names in a layout's index.json: the full name if it has one, else the same as tag, or
	 * NULL; and org.opencontainers.image.ref.name verbatim, or NULL. */
	char *name, *tag;
};

struct oci_document {
	enum oci_kind kind;
	char *media_type;

	/* OCI_MANIFEST */
	struct oci_descriptor config;
	struct oci_layer *layers; /* lowest first */
	size_t n_layers;
	uint64_t size; /* of all layers, compressed */

	/* OCI_INDEX: possible images, without attestations and unknown media types */
	struct oci_index_entry *entries;
	size_t n_entries;
};

/*
 * Parse a manifest or an index.
 *
 *   content_type     the HTTP header, parameters allowed; NULL if absent. Generic types
 *                    (application/json, text/plain, application/octet-stream) are ignored
 *   descriptor_type  mediaType of the descriptor that led here; NULL for the top document
 *
 * Returns 0; -EPROTO for malformed or contradictory documents; -EFBIG beyond OCI_DOCUMENT_MAX;
 * -ENOTSUP for schema 1, artifacts other than images, layers that are foreign, encrypted or of an
 * unknown type, and digests other than sha256.
 */
int oci_document_parse(const char *json, size_t len, const char *content_type,
	const char *descriptor_type, struct oci_document *ret, struct mlr_error *err);
void oci_document_done(struct oci_document *d);

/*
 * Choose the entry that fits a platform best, the first among equals. An entry without a platform
 * (a nested index, or an index of one) is used only if no entry with a platform fits.
 *
 * Returns 0, or -ENOENT listing the index's platforms.
 */
int oci_index_choose(const struct oci_document *index, const struct oci_platform *want,
	const struct oci_index_entry **ret, struct mlr_error *err);

/*
 * Writes the documents of an exported image. Equal images give equal bytes.
 */

/*
 * Write an OCI image manifest.
 *
 *   config, layers  their descriptors; n layers, lowest first
 *   like            a manifest to copy annotations from, len bytes; may be NULL
 *
 * To free(), like the results below.
 */
char *oci_manifest_write(const struct oci_descriptor *config, const struct oci_descriptor *layers,
	size_t n, const char *like, size_t len);

/* An image in an index. */
struct oci_index_item {
	struct oci_descriptor manifest;
	const char *platform; /* "linux/amd64" */
	const char *name;     /* its name, for the index.json of a layout; or NULL */
};

char *oci_index_write(const struct oci_index_item *items, size_t n);

/* manifest.json as docker save writes it; tag may be NULL. */
char *oci_save_write(const char *config, const char *tag, const struct strv *layers);

#define OCI_LAYOUT_FILE "{\"imageLayoutVersion\":\"1.0.0\"}"
