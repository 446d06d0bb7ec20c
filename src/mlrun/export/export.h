/*
 * export: writes a stored image out - as an OCI layout, an archive of one, what docker load reads,
 * a tar of its root directory, or that directory.
 *
 * Layers are rebuilt bit for bit from their trees and records, and their diff IDs are checked; so
 * the configuration, and with it what Docker calls the image's ID, stays the same. Layers are
 * compressed anew unless the store kept the blobs, and then the manifest's digest changes. The same
 * image always gives the same bytes.
 */
#pragma once

#include "oci/compression.h"
#include "oci/digest.h"
#include "store/image.h"

enum export_format {
	EXPORT_OCI_ARCHIVE,
	EXPORT_OCI,            /* a directory */
	EXPORT_DOCKER_ARCHIVE, /* its layers are never compressed */
	EXPORT_TAR,            /* the root directory, without the configuration */
	EXPORT_ROOTFS,   /* the same as a directory; its files are the caller's, and devices missing
			  */
	EXPORT_SQUASHFS, /* this and the next are export_squash()'s (export/squash.h) */
	EXPORT_SIF,
};

struct export_options {
	enum export_format format;
	enum oci_compression compression;
	int keep_blobs; /* write the original blobs and manifest; fails if the store lacks them */
	int preserve_permissions; /* EXPORT_ROOTFS: set-ID bits, and write permission for others */
	const char *name;         /* to write into it; NULL: the image's own */
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
};

struct export_result {
	char digest[OCI_DIGEST_SIZE]; /* of the written manifest; "" if the format has none */
	char config[OCI_DIGEST_SIZE]; /* of the configuration; "" likewise */
	size_t layers;
};

/*
 * Write an image.
 *
 *   path  what to make; "-" is standard output
 *
 * Returns 0; -ENOENT if the store lacks a layer's tree, record or kept blob; -EBADMSG if a layer
 * does not match its diff ID; -EEXIST for a directory that is not empty; -ENOSPC and the like.
 * After a failure, path is unchanged; with EXPORT_ROOTFS, which replaces files of an existing
 * directory and leaves others, each file is old or new.
 */
int export_image(struct store *st, const struct store_image *im, const char *path,
	const struct export_options *opt, struct export_result *ret, struct mlr_error *err);
