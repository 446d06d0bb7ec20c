/*
 * Pruning: images that nobody used for long go, and what no image needs.
 */
#ifndef MLR_STORE_PRUNE_H
#define MLR_STORE_PRUNE_H

#include "base/error.h"
#include "base/strv.h"
#include "store/image.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

struct store_prune_options {
	int keep_last;      /* the last used images of each repository that stay; -1: not said */
	int64_t older_than; /* seconds since the last use; -1: not said */
	int64_t max_size;   /* bytes on disk of the whole store; -1: not said */
	int dry_run;        /* only tell */
};

#define STORE_PRUNE_OPTIONS_INIT \
	{                        \
		-1, -1, -1, 0    \
	}

/* An image that was to go. */
struct store_pruned {
	struct store_image image;
	int64_t last_use; /* seconds since 1970: when a process last started in it, or its pull */
	int in_use;       /* it stays: a process runs in it or may, or a container is made of it */
};

struct store_prune_result {
	struct store_pruned *images; /* n of them, last used first gone */
	size_t n;
	struct strv parts; /* what else went: "layers/<hex>", … */
	uint64_t freed;    /* bytes on disk */
	int64_t left;      /* the store's size afterwards; -1 unless max_size asked for it */
};

#define STORE_PRUNE_RESULT_INIT           \
	{                                 \
		NULL, 0, STRV_INIT, 0, -1 \
	}

void store_prune_result_done(struct store_prune_result *r);

/*
 * Remove images, and then all that no image needs, what killed processes left included. What pulls
 * at work count on stays, as do images in use.
 *
 * With keep_last alone all but the last used of each repository go. With older_than those go that
 * were not used for so long, with max_size the longest unused until the store is no larger; then
 * keep_last tells what stays in spite of that. Without any no image goes.
 *
 * Returns 0; -EPROTO for a damaged document: what it needs could not be spared.
 */
int store_prune(struct store *st, const struct store_prune_options *opt,
	struct store_prune_result *ret, struct mlr_error *err);

#endif
