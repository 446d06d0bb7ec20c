/* Pruning: removes images that were not used for long, and what no image needs. */
#pragma once

#include "store/image.h"

struct store_prune_options {
	int keep_last; /* how many images of each repository to keep, last used first; -1: not given
			*/
	int64_t older_than; /* seconds since the last use; -1: not given */
	int64_t max_size;   /* bytes on disk of the whole store; -1: not given */
	int dry_run;        /* only report */
};

#define STORE_PRUNE_OPTIONS_INIT \
	{                        \
		-1, -1, -1, 0    \
	}

/* An image that was chosen for removal. */
struct store_pruned {
	struct store_image image;
	int64_t last_use; /* seconds since 1970: the last start of a process in it, or its pull */
	int in_use;       /* it stays: a process may run in it, or a container is made of it */
};

struct store_prune_result {
	struct store_pruned *images; /* n of them, in the order of removal */
	size_t n;
	struct strv parts; /* other parts that were removed: "layers/<hex>", … */
	uint64_t freed;    /* bytes on disk */
	int64_t left;      /* the store's size afterwards; -1 without max_size */
};

#define STORE_PRUNE_RESULT_INIT           \
	{                                 \
		NULL, 0, STRV_INIT, 0, -1 \
	}

void store_prune_result_done(struct store_prune_result *r);

/*
 * Remove images, and then everything that no image needs, what killed processes left included.
 * Images in use stay, and what running pulls rely on.
 *
 * keep_last alone removes all but the last used images of each repository. older_than removes
 * images that were not used for so long; max_size removes the longest unused until the store is no
 * larger; with either, keep_last protects images from them. With none of the three no image is
 * removed.
 *
 * Returns 0; -EPROTO for a damaged document, since what it needs could not be spared.
 */
int store_prune(struct store *st, const struct store_prune_options *opt,
	struct store_prune_result *ret, struct mlr_error *err);
