/*
 * Makes an image's squashfs file: feeds its layers, the topmost first, to squashfs/writer.h. For
 * this room's other files.
 */
#pragma once

#include "oci/manifest.h"
#include "pull/pull.h"
#include "store/store.h"

struct squash_work {
	struct store *st;
	struct pull_source *source;
	const struct oci_layer *layers; /* n of them, lowest first */
	char *const *diff_ids;          /* one for each layer */
	struct pull_layer *shown;       /* one for each layer */
	size_t n;
	const char *manifest; /* the file's name */
	const char *created;  /* the image's, RFC 3339; may be NULL */
	int *stop;            /* set to 1 at the first failure, so that source gives up */
};

/*
 * Make squash/<manifest>.sqfs. The next layer is fetched while one is written, through a bounded
 * queue. A layer whose tree the store has is read from that instead. Both digests of each are
 * checked.
 *
 *   digest  "sha256:<hex>" of the file
 *
 * Returns when all threads have ended: 0; 1 if the file exists already, and digest is then that of
 * the bytes on disk; -ECANCELED once *cancel is set; or the failure.
 */
int squash_bring(struct squash_work *w, const struct pull_watch *watch, const int *cancel,
	char digest[8 + HASH_HEX_SIZE], struct mlr_error *err);
