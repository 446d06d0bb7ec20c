/*
 * Makes a blob of a stored layer: rebuilds its tar bit for bit (layer/record.h) and compresses it,
 * in a temporary file. For this room's other files and push's.
 */
#pragma once

#include "export/export.h"
#include "layer/record.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "store/store.h"

struct pack {
	int fd;
	uint64_t size;
	char digest[OCI_DIGEST_SIZE];
};

#define PACK_INIT         \
	{                 \
		-1, 0, "" \
	}

void pack_done(struct pack *p);

/* Can pack_rebuild() read these layers? In a store of this user's it always can; else every file is
 * opened, so that a failure comes before anything is written. Returns 0 or a failure that names the
 * file. */
int pack_check(struct store *st, const struct strv *diff_ids, struct mlr_error *err);

/*
 * Rebuild a layer's tar and pass it to write. Its bytes match the diff ID, or the result is
 * -EBADMSG.
 *
 * Returns 0; -ENOENT if the store has no tree or record of the layer; write's error.
 */
int pack_rebuild(struct store *st, const char *diff_id, layer_write_fn write, void *ctx,
	struct mlr_error *err);

/* Sees a blob being made. */
struct pack_watch {
	/* Its first `size` bytes can be read from fd, which stays open until pack_layer() returns.
	 */
	void (*grown)(void *ctx, int fd, uint64_t size);
	void *ctx;
};

/* Compress a layer. The same layer gives the same bytes. watch may be NULL. Returns as above, and
 * -ENOSPC. */
int pack_layer(struct store *st, const char *diff_id, enum oci_compression how, const int *cancel,
	const struct pack_watch *watch, struct pack *ret, struct mlr_error *err);

/* Get a layer's blob that the store kept. Returns 0, -ENOENT, -EBADMSG. */
int pack_kept(struct store *st, const struct oci_descriptor *blob, struct pack *ret,
	struct mlr_error *err);
