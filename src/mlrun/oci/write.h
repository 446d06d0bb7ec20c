/*
 * Writes the documents of an exported image. Equal images give equal bytes.
 */
#ifndef MLR_OCI_WRITE_H
#define MLR_OCI_WRITE_H

#include "base/strv.h"
#include "oci/manifest.h"

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

#endif
