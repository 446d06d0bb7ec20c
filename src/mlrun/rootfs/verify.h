/*
 * Verifying: does the store still hold what was put into it?
 *
 *   blobs     their bytes hash to their names
 *   layers    the layer's tar, written again from tree and record (layer/record.h), hashes to the
 *             diff ID; each name of the tree is a member of that tar with its type, mode and target
 *             (but for bits by which others would write, which no tree has)
 *   trees     of a whole image: each file is one of the layers' (by inode, else by its bytes), and
 *             the names are those that were listed when it was made; covers alike
 *   squashfs  files hash to what was written down when they were made
 *   facts     they are what manifest and configuration say
 *   images    all that they stand for is there
 */
#ifndef MLR_ROOTFS_VERIFY_H
#define MLR_ROOTFS_VERIFY_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

#include <stddef.h>

enum rootfs_verdict {
	ROOTFS_BROKEN,
	ROOTFS_OPEN, /* a tree that is as it should be, but others than its owner may write to it */
	ROOTFS_UNKNOWN, /* a layer of an older mlrun has no record: nothing can be said of it */
};

struct rootfs_finding {
	enum rootfs_verdict verdict;
	char *path; /* below the store's top: "layers/<hex>", "blobs/sha256/<hex>", "images/…" */
	char *why;
	struct strv files; /* below path/tree, for people: which are wrong, or may be */
};

struct rootfs_report {
	struct rootfs_finding *v; /* n of them */
	size_t n;
	size_t checked; /* layers, blobs, trees, facts and images that were looked at */
};

#define ROOTFS_REPORT_INIT \
	{                  \
		NULL, 0, 0 \
	}

void rootfs_report_done(struct rootfs_report *r);

struct rootfs_verify_options {
	const int *cancel; /* read atomically; not 0 ends it with -ECANCELED. May be NULL */
	void (*tick)(void *ctx, const char *path); /* begins with this one. May be NULL */
	void *ctx;
};

/*
 * Look at everything. Nothing is locked: what another process removes meanwhile is passed over.
 *
 * Returns 0 whatever was found, or -errno when the looking itself failed.
 */
int rootfs_verify(struct store *st, const struct rootfs_verify_options *opt,
	struct rootfs_report *ret, struct mlr_error *err);

#endif
