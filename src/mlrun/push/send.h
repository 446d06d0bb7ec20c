/* Sends a layer while it is compressed. For push.c. */
#pragma once

#include "oci/digest.h"
#include "oci/manifest.h"
#include "registry/registry.h"
#include "store/store.h"

struct send {
	struct store *st;
	struct registry *registry;
	int *stop; /* atomic; not 0 stops the compressing with -ECANCELED; set by a failure to send
		    */
	uint64_t *sent; /* atomic: grows by what is sent */
};

/* Compress a layer and send it. what is for messages. Returns 0, the blob's digest and its size; or
 * the errors of push_image(). */
int send_layer(const struct send *s, const char *what, const char *diff_id,
	enum oci_compression how, char digest[OCI_DIGEST_SIZE], uint64_t *size,
	struct mlr_error *err);

/* Send a blob that the store has kept. Returns 1; 0 if it has not; the errors of push_image(). */
int send_kept(const struct send *s, const char *what, const struct oci_descriptor *blob,
	struct mlr_error *err);

/* Send a document. */
int send_document(const struct send *s, const char *what, const char *digest, const char *text,
	size_t len, struct mlr_error *err);
