/*
 * Makes an index of images for several platforms (OCI image-spec, image-index.md; Docker's manifest
 * list) in a repository that has the images.
 */
#pragma once

#include "oci/digest.h"
#include "oci/platform.h"
#include "oci/ref.h"
#include "push/push.h"

struct index_item {
	char digest[OCI_DIGEST_SIZE];
	char media_type[128];
	uint64_t size;
	char platform[OCI_PLATFORM_SIZE];
};

struct index_items {
	struct index_item *v;
	size_t n;
};

void index_items_done(struct index_items *l);

/* Append an image that was pushed. Returns 0, or -EEXIST for a platform that is there already. */
int index_add_pushed(struct index_items *l, const struct push_result *r, const char *platform,
	struct mlr_error *err);

/* Append an image that the repository of `what` has, or all images of an index. Returns 0, -EEXIST,
 * and errors as registry/registry.h says. */
int index_add_remote(struct index_items *l, const struct oci_ref *what,
	const struct push_options *opt, struct mlr_error *err);

/* Write the index under to's tag. Returns 0, its digest and errors as above. */
int index_push(const struct index_items *l, const struct oci_ref *to,
	const struct push_options *opt, char digest[OCI_DIGEST_SIZE], struct mlr_error *err);
