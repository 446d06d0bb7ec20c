/* Resolves a reference: fetches and checks index, manifest and configuration. */
#pragma once

#include "oci/config.h"
#include "oci/manifest.h"
#include "pull/source.h"

struct resolved {
	struct registry_document index; /* data is NULL if the reference names a manifest */
	struct registry_document manifest;
	struct oci_document layers; /* the manifest, parsed: a layer for each diff ID */
	char *config_json;
	struct oci_config config;
	char platform[OCI_PLATFORM_SIZE];
};

void resolve_done(struct resolved *r);

/*
 * Returns 0; -ENOENT if an index has nothing for the platform; -ENOTSUP if the image is for another
 * platform or not for Linux; -EPROTO, -EBADMSG, and the source's errors.
 */
int resolve(struct pull_source *source, const struct oci_platform *want, struct resolved *ret,
	struct mlr_error *err);
