/* The container's root: the image's trees, and memory to write to on top of them. */
#ifndef MLR_RUNTIME_OVERLAY_H
#define MLR_RUNTIME_OVERLAY_H

#include "base/error.h"
#include "plan/plan.h"

struct overlay {
	int scratch; /* top of a tmpfs that covers /tmp of the mount namespace and holds what is
			written */
	int root;    /* top of the overlay */
	int kept;    /* plan->kept, or -1 */
	int kept_is_lower; /* its "upper" is the first of the trees: it was there */
	int *lowers; /* the trees, topmost first, then -1; behind the links "0", "1" … of the scratch */
};

#define OVERLAY_INIT { -1, -1, -1, 0, NULL }

/*
 * Mount the plan's lower trees, or its squashfs file, with a tmpfs upper layer, in which the directories that lead to the
 * plan's targets are already there. Leaves the working directory in the scratch.
 *
 *   server  squash_start()'s socket, where the plan has a squashfs file
 *
 * With PLAN_ROOT_KEPT what plan->kept holds is the topmost tree; runtime/kept.h does the rest.
 */
int overlay_mount(const struct plan *p, int server, struct overlay *ret, struct mlr_error *err);

/* The scratch, with the directories "root", "upper" and "work". */
int overlay_mount_scratch(struct overlay *o, struct mlr_error *err);

/* Mount the scratch's directory "root" with these overlayfs options, whose names count from the
 * scratch, and open it. Returns 0 or -errno, without a word. */
int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options);
void overlay_done(struct overlay *o);

#endif
