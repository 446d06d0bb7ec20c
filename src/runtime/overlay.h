/* The container's root: the image's trees, and memory to write to on top of them. */
#ifndef MLR_RUNTIME_OVERLAY_H
#define MLR_RUNTIME_OVERLAY_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/stack.h"

/* Descriptors are O_PATH, -1 for none. */
struct overlay {
	int scratch;        /* top of a tmpfs that covers /tmp of the mount namespace and holds what is
			       written, in "upper" and "work" */
	int upper;          /* its "upper" */
	struct stack trees; /* the plan's lower trees, or the one that its squashfs file is */
	int root;           /* top of the overlay */
};

#define OVERLAY_INIT { -1, -1, STACK_INIT, -1 }

/*
 * Open the trees and mount the scratch; the upper layer is empty but has the mode of the image's top.
 *
 *   server  squash_start()'s socket, where the plan has a squashfs file
 */
int overlay_open(const struct plan *p, int server, struct overlay *ret, struct mlr_error *err);

/* Mount the overlay on the scratch's "root". */
int overlay_mount(const struct plan *p, struct overlay *o, struct mlr_error *err);

void overlay_done(struct overlay *o);

/* The scratch, with an empty directory "root". */
int overlay_mount_scratch(struct overlay *o, struct mlr_error *err);

/* Mount an overlay of the plan's image on "root" and open it. Names in the options count from
 * /proc/self/fd: "lowerdir=7:8,upperdir=12/upper". Returns 0 or -errno, without a word. */
int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options);

#endif
