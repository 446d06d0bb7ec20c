/*
 * The table of layer compressions. A new one is a row here, and a file layer/<name>.c that defines
 * "const struct layer_codec layer_<name>" (layer/codec.h): media types, options and the code that
 * reads and writes layers all follow from these two.
 */
#pragma once

/* The name appears in media types, "…tar+zstd", and in mlrun-export(1)'s --compression. */
#define OCI_COMPRESSIONS(ROW) \
	ROW(GZIP, gzip)       \
	ROW(ZSTD, zstd)

enum oci_compression {
	OCI_PLAIN, /* "none" */
#define ROW(ID, name) OCI_##ID,
	OCI_COMPRESSIONS(ROW)
#undef ROW
};

/* Find a compression by its name, "none" included. Returns 0 or -ENOENT. */
int oci_compression_parse(const char *name, enum oci_compression *ret);

/* Find a compression by a layer's media type, OCI's or Docker's. Returns 0 or -ENOENT. */
int oci_compression_of_type(const char *media_type, enum oci_compression *ret);

/* OCI's media type of a layer with this compression. */
const char *oci_compression_type(enum oci_compression c);
