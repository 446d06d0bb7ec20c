/* The container's root: the image's trees with writable memory on top, by overlayfs or without. */
#pragma once

#include "plan/plan.h"
#include "runtime/squash.h"
#include "runtime/stack.h"

/* Descriptors are O_PATH, or -1. */
struct overlay {
	int scratch; /* top of a tmpfs that covers /tmp of the mount namespace, or another directory
			of the host's, and holds what is written, in "upper" and "work" */
	int upper;   /* its "upper" */
	struct stack trees; /* the plan's lower trees, or the mounted squashfs file */
	const char *place;  /* where the scratch is mounted; a literal */
	int root;           /* top of the overlay */
	int covers_scratch; /* the overlay is mounted on place as well, above the scratch */
	int image;          /* the squashfs file's mount, which shall lie beneath the root */
	int command;        /* plan->argv's program in that file, open for reading, or -errno */
	int kept;           /* plan->kept */
	int kept_is_lower;  /* its "upper" existed and is the first of the trees */
};

#define OVERLAY_INIT                                      \
	{                                                 \
		-1, -1, { 0 }, NULL, -1, 0, -1, -1, -1, 0 \
	}

/*
 * Open the trees and mount the scratch. The upper layer is empty and has the mode of the image's
 * top. With PLAN_ROOT_KEPT the contents of plan->kept are the topmost tree; runtime/kept.h does the
 * rest.
 *
 *   server  from squash_start(), if the plan has a squashfs file
 */
int overlay_open(const struct plan *p, const struct squash_server *server, struct overlay *ret,
	struct mlr_error *err);

/* Mount the overlay and open its top. */
int overlay_mount(const struct plan *p, struct overlay *o, struct mlr_error *err);

/* Move the root onto the squashfs file's mount, where others can find it (runtime/squash.h).
 * Returns 1; 0 without such a mount, or if the kernel cannot. */
int overlay_cover_image(struct overlay *o);

/* With PLAN_ROOT_ITSELF, in place of the overlay: mount the tree, with the mounts below it. */
int overlay_mount_itself(struct overlay *o, struct mlr_error *err);

void overlay_done(struct overlay *o);

/* Mount the scratch, with an empty directory "work". p as below, for an underlay's root. */
int overlay_mount_scratch(const struct plan *p, struct overlay *o, struct mlr_error *err);

/*
 * Mount an overlay on the scratch's "root" and open it. Paths in the options are relative to
 * /proc/self/fd, "lowerdir=7:8,upperdir=12/upper"; the working directory is there afterwards.
 *
 *   p  the plan that the mount's source describes (runtime/container.h), or NULL
 *
 * Returns 0 or -errno without a message.
 */
int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options);

/*
 * --- underlay.c: a root without overlayfs ---
 *
 * For kernels that refuse overlayfs to users (before Linux 5.11), file systems that cannot be a
 * lower layer, and deeply nested containers. It binds the image's tree piece by piece, read-only. A
 * directory that needs a mount point which the image lacks is made in the scratch tmpfs, and the
 * image's entries are bound into it.
 */

/* Can this plan do without an overlay: is its root one tree, with no kept changes? */
int underlay_serves(const struct plan *p, const struct overlay *o);

/* Build o->root from the tree and from what upper_fill() has put into the upper layer. */
int underlay_mount(struct overlay *o, struct mlr_error *err);
