/*
 * A source of an image's documents and blobs: a registry, an OCI layout ("oci:DIR[:REF]",
 * image-spec, image-layout.md), an archive of one ("oci-archive:FILE[:REF]"), an archive from
 * `docker save` ("docker-archive:FILE[:REF]"), or a plain tar of a root directory. The rest of this
 * room does not know which.
 */
#pragma once

#include "oci/digest.h"
#include "oci/name.h"
#include "oci/platform.h"
#include "pull/plain.h"
#include "registry/registry.h"
#include "store/store.h"

struct pull_source;

struct pull_source_ops {
	/* Get the digest of the requested name; "" if only manifest() can. */
	int (*head)(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err);
	/* Get a manifest or index: the requested one if digest is NULL. */
	int (*manifest)(struct pull_source *s, const char *digest, struct registry_document *ret,
		struct mlr_error *err);
	/* Get a small blob, checked. To free(). */
	int (*blob)(struct pull_source *s, const char *digest, uint64_t size, char **ret,
		struct mlr_error *err);
	/* As registry_blob_stream(). Thread-safe, several at once. */
	int (*stream)(struct pull_source *s, const char *digest, uint64_t size,
		registry_sink_fn sink, void *ctx, struct mlr_error *err);
	void (*free)(struct pull_source *s);
	/* As registry_distrust(); NULL if all bytes come from one place. */
	int (*distrust)(struct pull_source *s);
	/* As registry_blob_resume(); NULL if the source cannot resume. */
	int (*resume)(struct pull_source *s, const char *digest, uint64_t size, int head,
		registry_sink_fn sink, void *ctx, struct mlr_error *err);
};

/* The first member of every source. */
struct pull_source {
	const struct pull_source_ops *ops;
};

/* Freeing NULL is fine. */
void pull_source_free(struct pull_source *s);

/* After a layer failed with errno r: how many retries may help, because the bytes may have been a
 * mirror's? */
int pull_source_distrust(struct pull_source *s, int r);

/* An image in a registry, by its digest if the reference has one, else by its tag. */
int pull_source_registry(const struct oci_ref *ref, const struct registry_options *opt,
	struct pull_source **ret, struct mlr_error *err);

/* Options for images in files; must outlive the source. */
struct source_files_options {
	const struct oci_platform *want;
	const struct plain_options *plain;
};

/*
 * An image in files. For OCI_ANY_FILE the contents decide the kind: a layout, an archive of one, an
 * archive from docker save, else a tar of a root directory. The path "-" is standard input.
 *
 *   stored  the image's name in the store (oci_name_stored()), to oci_ref_done()
 */
int pull_source_files(const struct oci_name *name, const struct source_files_options *opt,
	struct pull_source **ret, struct oci_ref *stored, struct mlr_error *err);

/*
 * Wrap another source, which it frees. Blobs that the store has come from there. Others are kept
 * while they stream (keep); or, if they have at least `from` bytes and the source can resume, they
 * are spooled until they are whole.
 */
struct pull_source *pull_source_spool(
	struct store *st, struct pull_source *take, uint64_t from, int keep);
