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

/* index.json of a layout with one image; platform is "linux/amd64", name its annotation or NULL. */
char *oci_index_write(
	const struct oci_descriptor *manifest, const char *platform, const char *name);

/* manifest.json as docker save writes it; tag may be NULL. */
char *oci_save_write(const char *config, const char *tag, const struct strv *layers);

#define OCI_LAYOUT_FILE "{\"imageLayoutVersion\":\"1.0.0\"}"

#endif
