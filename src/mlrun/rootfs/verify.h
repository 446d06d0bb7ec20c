/*
 * Verifies that the store still holds what was put into it.
 *
 *   blobs     their bytes hash to their names
 *   layers    the layer's tar, written again from tree and record (layer/record.h), hashes to the
 *             diff ID; each name of the tree is a member of that tar with its type, mode and target
 *             (but for write permission for others, which no tree has)
 *   trees     of a whole image: each file is one of the layers' (by inode, else by its bytes), and
 *             the names match the listing made with the tree; likewise for covers
 *   squashfs  files hash to the digest recorded when they were made
 *   facts     they match manifest and configuration
 *   images    everything they refer to exists
 */
#pragma once

#include "store/store.h"

enum rootfs_verdict {
	ROOTFS_BROKEN,
	ROOTFS_OPEN,    /* a correct tree, but other users may write to it */
	ROOTFS_UNKNOWN, /* a layer of an older mlrun, without a record to check against */
};

struct rootfs_finding {
	enum rootfs_verdict verdict;
	char *path; /* below the store's top: "layers/<hex>", "blobs/sha256/<hex>", "images/…" */
	char *why;
	struct strv files; /* below path/tree, for people: those that are wrong, or may be */
};

struct rootfs_report {
	struct rootfs_finding *v; /* n of them */
	size_t n;
	size_t checked; /* the number of layers, blobs, trees, facts and images examined */
};

void rootfs_report_done(struct rootfs_report *r);

struct rootfs_verify_options {
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
	void (*tick)(void *ctx, const char *path); /* called before each path. May be NULL */
	void *ctx;
};

/*
 * Examine everything. Locks nothing; skips what other processes remove meanwhile.
 *
 * Returns 0 whatever it finds, or -errno if it could not examine the store.
 */
int rootfs_verify(struct store *st, const struct rootfs_verify_options *opt,
	struct rootfs_report *ret, struct mlr_error *err);
