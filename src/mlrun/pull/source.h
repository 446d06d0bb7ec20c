/*
 * Where an image's documents and blobs come from: a registry, an OCI layout ("oci:DIR[:REF]",
 * image-spec, image-layout.md), an archive of one ("oci-archive:FILE[:REF]") or what `docker save`
 * writes ("docker-archive:FILE[:REF]"), or a plain tar of a root directory. The rest of this
 * room does not know which.
 */
#ifndef MLR_PULL_SOURCE_H
#define MLR_PULL_SOURCE_H

#include "base/error.h"
#include "oci/digest.h"
#include "oci/name.h"
#include "oci/platform.h"
#include "pull/plain.h"
#include "registry/registry.h"
#include "store/store.h"

#include <stdint.h>

struct pull_source;

struct pull_source_ops {
	/* The digest that the wanted name stands for, "" when only get can tell. */
	int (*head)(struct pull_source *s, char digest[OCI_DIGEST_SIZE], struct mlr_error *err);
	/* A manifest or index: the wanted one for NULL, else by digest. */
	int (*manifest)(struct pull_source *s, const char *digest, struct registry_document *ret,
		struct mlr_error *err);
	/* A small blob, checked. To free(). */
	int (*blob)(struct pull_source *s, const char *digest, uint64_t size, char **ret,
		struct mlr_error *err);
	/* As registry_blob_stream(). Any thread, several at once. */
	int (*stream)(struct pull_source *s, const char *digest, uint64_t size,
		registry_sink_fn sink, void *ctx, struct mlr_error *err);
	void (*free)(struct pull_source *s);
	/* As registry_distrust(); NULL: the bytes come from one place only. */
	int (*distrust)(struct pull_source *s);
	/* As registry_blob_resume(); NULL: it cannot go on in the middle. */
	int (*resume)(struct pull_source *s, const char *digest, uint64_t size, int head,
		registry_sink_fn sink, void *ctx, struct mlr_error *err);
};

/* A source begins with this. */
struct pull_source {
	const struct pull_source_ops *ops;
};

/* Freeing NULL is fine. */
void pull_source_free(struct pull_source *s);

/* After a layer failed with that errno: how often is it worth to bring it again, because the bytes
 * may have been a mirror's? */
int pull_source_distrust(struct pull_source *s, int r);

/* An image in a registry, wanted by its digest where the reference has one, else by its tag. */
int pull_source_registry(const struct oci_ref *ref, const struct registry_options *opt,
	struct pull_source **ret, struct mlr_error *err);

/* What lies in files needs; all of it outlives the source. */
struct source_files_options {
	const struct oci_platform *want;
	const struct plain_options *plain;
};

/*
 * An image in files; of OCI_ANY_FILE what is there tells the kind: a layout, an archive of one,
 * what docker save writes, else a tar of a root directory. The path "-" is standard input.
 *
 *   stored  what the image is called in the store (oci_name_stored()), to oci_ref_done()
 */
int pull_source_files(const struct oci_name *name, const struct source_files_options *opt,
	struct pull_source **ret, struct oci_ref *stored, struct mlr_error *err);

/*
 * A source around another, which it frees: blobs that the store has kept come from there; others
 * are kept as they pass (keep), or spooled when they have at least `from` bytes and the source can
 * go on in the middle, until they are whole.
 */
struct pull_source *pull_source_spool(
	struct store *st, struct pull_source *take, uint64_t from, int keep);

#endif
