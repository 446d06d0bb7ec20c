/*
 * Commit: an image of a container, the one that it was made of and a layer more.
 */
#ifndef MLR_ROOTFS_COMMIT_H
#define MLR_ROOTFS_COMMIT_H

#include "base/error.h"
#include "base/strv.h"
#include "oci/digest.h"
#include "store/image.h"
#include "store/store.h"
#include "store/stores.h"

#include <stdint.h>

struct rootfs_commit {
	const char *container;
	const char *image;            /* the new one's canonical name */
	const char *message, *author; /* or NULL */
	const struct strv *changes;   /* oci/derive.h's */
	const int *cancel; /* read atomically; not 0 ends it with -ECANCELED. May be NULL */
};

struct rootfs_committed {
	struct store_image image;
	char diff_id[OCI_DIGEST_SIZE]; /* of the new layer; "" when nothing was written */
	uint64_t bytes;                /* of its tar */
	struct strv omitted;           /* paths that no layer can hold */
	int is_running;                /* a process of this host uses the container */
};

#define ROOTFS_COMMITTED_INIT                         \
	{                                             \
		STORE_IMAGE_INIT, "", 0, STRV_INIT, 0 \
	}

void rootfs_committed_done(struct rootfs_committed *c);

/*
 *   st      the user's own store, opened for adding; layers that it lacks are copied into it
 *   others  additional stores, where the image that the container is made of may be
 *
 * The container stays as it is, and on the image that it was made of. A layer that is published
 * stays after a failure; the name comes last.
 *
 * Returns 0; -ENOENT for no such container, or when its image's layers are not in a store, -ENXIO
 * when the image is not; -EBUSY when another node uses it, or when files change while they are
 * read; -EINVAL for a change that is none; -ENOSPC and the like.
 */
int rootfs_commit(struct store *st, const struct stores *others, const struct rootfs_commit *opt,
	struct rootfs_committed *ret, struct mlr_error *err);

#endif
