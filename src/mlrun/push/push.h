/*
 * push: writes a stored image to a registry, several layers at once.
 *
 * A layer that the repository has is not sent, one that another repository of the registry has is
 * mounted. Others are rebuilt bit for bit, compressed on all cores and sent while they are
 * compressed. The manifest comes last, so that a tag never names an image with a part missing. The
 * store remembers what a layer became (store/cache.h): the next push does not compress it again.
 *
 * If the registry has all layers as the image was pulled, it gets the original manifest, and the
 * digest stays.
 */
#pragma once

#include "base/config.h"
#include "oci/compression.h"
#include "oci/ref.h"
#include "oci/steps.h"
#include "registry/registry.h"
#include "store/image.h"

#define PUSH_JOBS     3 /* layers at once by default */
#define PUSH_JOBS_MAX 32

enum push_layer_end {
	PUSH_SENT,
	PUSH_PRESENT, /* the repository had it */
	PUSH_MOUNTED, /* from another repository */
};

struct push_watch {
	void *ctx;
	/* A layer is done. From any thread, one at a time. */
	void (*layer)(void *ctx, const char *digest, uint64_t size, enum push_layer_end end);
	/* Ten times a second, in the calling thread: the bytes of layers sent so far. */
	void (*tick)(void *ctx, uint64_t sent);
};

struct push_options {
	enum oci_compression compression; /* of layers that have to be compressed */
	int only; /* layers that the registry has in another compression are compressed anew */
	int jobs; /* layers at once, 1 to PUSH_JOBS_MAX */
	struct registry_options registry; /* push_image() is cancelled by the next member */
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
	struct push_watch watch; /* members may be NULL */
};

struct push_result {
	char digest[OCI_DIGEST_SIZE]; /* of the manifest there */
	char media_type[128];
	uint64_t manifest_size;
	size_t layers, sent, mounted;
	uint64_t bytes; /* compressed, of the layers that were sent */
};

/*
 * Push an image.
 *
 *   to  where. Without a tag the manifest gets no name but its digest
 *
 * Returns 0; -ENOENT if the store lacks a layer's tree and record; -EBADMSG if a layer does not
 * match its diff ID; errors as registry/registry.h says; -ECANCELED.
 */
int push_image(struct store *st, const struct store_image *im, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err);

/* The same for documents that have no facts, in a store that the caller holds. */
int push_held(struct store *st, const struct store_image *im, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err);

/*
 * Push steps of builds (oci/steps.h), whose layers the store has.
 *
 * Returns as push_image(); -EFBIG if they have more layers than an image may have.
 */
int push_steps(struct store *st, const struct oci_step *steps, size_t n, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err);
