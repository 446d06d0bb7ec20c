/* The documents of a stored image, verified and parsed. For this room's other files and push's. */
#pragma once

#include "oci/config.h"
#include "oci/manifest.h"
#include "store/store.h"

struct documents {
	char *manifest_text, *config_text;
	size_t manifest_len, config_len;
	struct oci_document manifest;
	struct oci_config config; /* has a diff ID for each of the manifest's layers */
};

/* Returns 0, -ENOENT, -EBADMSG, -EPROTO. */
int documents_load(
	struct store *st, const char *manifest, struct documents *ret, struct mlr_error *err);
void documents_done(struct documents *d);
