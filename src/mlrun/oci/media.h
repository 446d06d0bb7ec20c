/*
 * Media types: what a string in a document or an HTTP header says that some bytes are. For this
 * room's parsers.
 */
#ifndef MLR_OCI_MEDIA_H
#define MLR_OCI_MEDIA_H

#include "base/error.h"
#include "oci/manifest.h"

/* Returns 0, or -ENOTSUP for what is neither manifest nor index, schema 1 by name. */
int oci_media_kind(const char *type, enum oci_kind *ret, struct mlr_error *err);

/* Returns 0, or -ENOTSUP naming what stands in the way: foreign, encrypted, unknown. */
int oci_media_layer(const char *type, enum oci_compression *ret, struct mlr_error *err);

/* Is it an image's configuration (and the manifest thus an image, not some artifact)? */
int oci_media_is_config(const char *type);

/* What people call an artifact of that type, "a Helm chart"; NULL for what is not known. */
const char *oci_media_artifact(const char *type);

/* The bare type of a Content-Type header, lower case, or NULL when it says nothing. To free(). */
char *oci_media_from_header(const char *content_type);

#endif
