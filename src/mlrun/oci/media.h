/*
 * Reads the media types in documents and HTTP headers. For this room's parsers.
 */
#ifndef MLR_OCI_MEDIA_H
#define MLR_OCI_MEDIA_H

#include "base/error.h"
#include "oci/manifest.h"

/* Manifest or index? Returns 0, or -ENOTSUP for other types; the error names schema 1. */
int oci_media_kind(const char *type, enum oci_kind *ret, struct mlr_error *err);

/* A layer's compression. Returns 0, or -ENOTSUP: the layer is foreign, encrypted or unknown. */
int oci_media_layer(const char *type, enum oci_compression *ret, struct mlr_error *err);

/* Is this an image's configuration, so that the manifest is an image and no other artifact? */
int oci_media_is_config(const char *type);

/* The common name of an artifact with this type, "a Helm chart"; NULL if unknown. */
const char *oci_media_artifact(const char *type);

/* A Content-Type header's bare type in lower case; NULL for a generic type. To free(). */
char *oci_media_from_header(const char *content_type);

#endif
