/* The container's root: the image's trees, and memory to write to on top of them. */
#ifndef MLR_RUNTIME_OVERLAY_H
#define MLR_RUNTIME_OVERLAY_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/squash.h"
#include "runtime/stack.h"

/* Descriptors are O_PATH, -1 for none. */
struct overlay {
	int scratch; /* top of a tmpfs that covers /tmp of the mount namespace, or another directory
			of the host's, and holds what is written, in "upper" and "work" */
	int upper;   /* its "upper" */
	struct stack trees; /* the plan's lower trees, or the one that its squashfs file is */
	const char *place;  /* the path that the scratch is mounted on, a literal */
	int root;           /* top of the overlay */
	int covers_scratch; /* it is mounted on place as well, above the scratch */
	int kept;           /* plan->kept */
	int kept_is_lower;  /* its "upper" is the first of the trees: it was there */
};

#define OVERLAY_INIT                                   \
	{                                              \
		-1, -1, STACK_INIT, NULL, -1, 0, -1, 0 \
	}

/*
 * Open the trees and mount the scratch; the upper layer is empty but has the mode of the image's
 * top. With PLAN_ROOT_KEPT what plan->kept holds is the topmost tree; runtime/kept.h does the rest.
 *
 *   server  squash_start()'s, where the plan has a squashfs file
 */
int overlay_open(const struct plan *p, const struct squash_server *server, struct overlay *ret,
	struct mlr_error *err);

/* Mount the overlay and open its top. */
int overlay_mount(const struct plan *p, struct overlay *o, struct mlr_error *err);

void overlay_done(struct overlay *o);

/* The scratch, with an empty directory "work". p as below: what an underlay's root shows. */
int overlay_mount_scratch(const struct plan *p, struct overlay *o, struct mlr_error *err);

/*
 * Mount an overlay on the scratch's "root" and open it. Names in the options count from
 * /proc/self/fd: "lowerdir=7:8,upperdir=12/upper"; the working directory is there afterwards.
 *
 *   p  what its source tells (runtime/container.h); NULL: nothing
 *
 * Returns 0 or -errno, without a word.
 */
int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options);

#endif
