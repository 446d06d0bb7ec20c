/* Commit: makes an image from a container: its image and one more layer. */
#pragma once

#include "oci/digest.h"
#include "store/stores.h"

struct rootfs_commit {
	const char *container;
	const char *image;            /* the new image's canonical name */
	const char *message, *author; /* or NULL */
	const struct strv *changes;   /* recipe/derive.h's */
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
};

struct rootfs_committed {
	struct store_image image;
	char diff_id[OCI_DIGEST_SIZE]; /* of the new layer; "" if nothing was written */
	uint64_t bytes;                /* of its tar */
	struct strv omitted;           /* paths that no layer can hold */
	int is_running;                /* a process of this host uses the container */
};

#define ROOTFS_COMMITTED_INIT              \
	{                                  \
		{ 0 }, "", 0, STRV_INIT, 0 \
	}

void rootfs_committed_done(struct rootfs_committed *c);

/* How a layer is made; members as in struct rootfs_upper. */
struct rootfs_writing {
	int64_t newest;
	const int *cancel;
};

/* The layer of the files written in a container. */
struct rootfs_written {
	char diff_id[OCI_DIGEST_SIZE]; /* "" if nothing was written */
	uint64_t bytes;                /* of its tar */
	struct strv omitted;           /* paths that no layer can hold */
};

/*
 * Make a layer of what was written in a container.
 *
 *   in        the container's store
 *   st        the layers', opened for adding
 *   diff_ids  the layers of its image
 *   ret       zeroed; its list is the caller's, also after a failure
 *
 * Returns 0; -EBUSY if files change while they are read; -ENOSPC and the like.
 */
int rootfs_commit_layer(const struct store *in, const char *container, struct store *st,
	const struct strv *diff_ids, const struct rootfs_writing *how, struct rootfs_written *ret,
	struct mlr_error *err);

/*
 * Make the image.
 *
 *   st      the user's own store, opened for adding; layers that it lacks are copied into it
 *   others  additional stores, which may hold the container's image
 *
 * The container stays as it is, on its old image. A published layer stays even after a later
 * failure; the name is set last.
 *
 * Returns 0; -ENOENT if there is no such container, or if no store has its image's layers; -ENXIO
 * if no store has its image; -EBUSY if another node uses it or files change while they are read;
 * -EINVAL for an invalid change; -ENOSPC and the like.
 */
int rootfs_commit(struct store *st, const struct stores *others, const struct rootfs_commit *opt,
	struct rootfs_committed *ret, struct mlr_error *err);
