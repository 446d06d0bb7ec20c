/*
 * A container that keeps what is written to its root: its image with the container's own directory
 * on top (store/container.h).
 */
#pragma once

#include "oci/ref.h"
#include "plan/plan.h"
#include "store/facts.h"
#include "store/stores.h"

enum rootfs_kept_how {
	ROOTFS_KEPT_ANY,
	ROOTFS_KEPT_NEW,     /* fail if it exists, unless this process's step has made it */
	ROOTFS_KEPT_RUNNING, /* fail if no other process of this host is in it */
};

struct rootfs_kept_wish {
	const char *name; /* the container's, or "" for rootfs_kept_name() of the image */
	const char *job;  /* one made now ends with this job, job_name()'s; "": somebody removes it;
			   * NULL: it stays, and the user is told so */
	const char *step; /* job_step()'s of this process, or NULL */
	enum rootfs_kept_how how;
	int (*can_hold)(struct store *st); /* can the store hold a new container? NULL: yes */
};

/*
 * rootfs_plan() for --write.
 *
 *   image  as the user wrote it: "container:NAME" with the same name; or the image that the
 *          container was made from, by its name or its manifest. The container keeps its
 *          manifest if the name moves to another image
 *   wish   the container
 *   use    make the container if it is missing, and record that this process uses it and its
 *          image; otherwise only look
 *   p      also gets root, kept, share and a note on which container it is
 *
 * Returns 0; -EEXIST or -ESRCH by wish->how; -ENOENT if the image is not in the store; -ENXIO if
 * the container's image is not; -EEXIST if the container has another image; -EBUSY if another node
 * uses it; -ENOTSUP for a plain directory, which may change.
 */
int rootfs_kept_plan(const char *store_dir, const struct config *c, const char *image,
	const struct rootfs_kept_wish *wish, int use, struct plan *p, struct store_facts *ret,
	struct mlr_error *err);

/* The container's name in "container:NAME", which stands for the container with its own image; NULL
 * for an image. */
const char *rootfs_kept_of(const char *image);

/* The default name for a container of an image, to free(): "debian-12" for
 * docker.io/library/debian:12, "debian" for the tag latest, "debian-0123456789ab" for a digest. */
char *rootfs_kept_name(const struct oci_ref *ref);

/*
 * Add a hint on how to get an image again: by digest, since its name may have moved to another.
 *
 *   options  of mlrun pull or import, each followed by a space
 *
 * Returns what mlr_hint() returns.
 */
int rootfs_kept_hint(
	const char *image, const char *manifest, const char *options, struct mlr_error *err);

/*
 * Find the image of a container in one of these stores, by its manifest; its name may be gone.
 *
 *   name, image, manifest  from the container's record
 *   st                     belongs to all
 *
 * Returns 0, or -ENXIO with a hint on how to get the image again.
 */
int rootfs_kept_image(const struct stores *all, const char *name, const char *image,
	const char *manifest, struct store **st, struct store_facts *ret, struct mlr_error *err);
