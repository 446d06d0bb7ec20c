/*
 * Reads the two documents at the top of an OCI layout, on disk or in an archive (image-spec,
 * image-layout.md): "oci-layout", which marks a layout, and "index.json".
 */
#pragma once

#include "oci/manifest.h"

/* Check that "oci-layout" names a supported version. Returns 0, -EPROTO, -ENOTSUP. */
int oci_layout_check(const char *json, size_t len, struct mlr_error *err);

/*
 * Choose an entry of index.json.
 *
 *   which  a name in it, verbatim or as Docker expands it; "@N"; NULL for the only entry
 *   want   chooses if a name has an entry for each platform
 *
 * Returns 0 and the entry; 1 if the entries have platforms but no names, so that index.json itself
 * is the image's index; -ENOENT, or -EINVAL if several match. The hint lists them.
 */
int oci_layout_choose(const struct oci_document *index, const char *which,
	const struct oci_platform *want, const struct oci_index_entry **ret, struct mlr_error *err);

/*
 * Reads manifest.json of archives by `docker save` and `podman save`, which lists each image's
 * files (moby, image/spec/v1.2.md, "Combined Image JSON + Filesystem Changeset Format").
 */

struct oci_save_image {
	char *config;       /* a path in the archive */
	struct strv tags;   /* "debian:12"; may be empty */
	struct strv layers; /* paths, lowest first */
};

struct oci_save {
	struct oci_save_image *images; /* n of them, at least one */
	size_t n;
};

/* Parse manifest.json. Returns 0, or -EPROTO, -EFBIG, -ENOTSUP as oci_document_parse(). */
int oci_save_parse(const char *json, size_t len, struct oci_save *ret, struct mlr_error *err);
void oci_save_done(struct oci_save *s);

/*
 * Choose an image.
 *
 *   which  a tag as Docker understands it ("debian:12" is "docker.io/library/debian:12"), "@N", or
 *          NULL for the only one
 *   tag    the tag that matched, or the first; NULL if it has none; borrowed
 *
 * Returns 0, or -ENOENT, or -EINVAL if which is NULL and there are several; the hint lists them.
 */
int oci_save_choose(const struct oci_save *s, const char *which, const struct oci_save_image **ret,
	const char **tag, struct mlr_error *err);

/*
 * Make a manifest for such an image, which has none: Docker's schema 2 as skopeo makes it, so that
 * an archive has the same digest everywhere. Diff IDs name the layers, since the archive's layers
 * are plain tars. To free().
 *
 *   config_digest, config_size, diff_ids, sizes (of the plain tars, one for each diff ID)
 */
char *oci_save_manifest(const char *config_digest, size_t config_size, const struct strv *diff_ids,
	const unsigned long long *sizes);
