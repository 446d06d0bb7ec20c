/* The container's root: the image's trees, and memory to write to on top of them. */
#ifndef MLR_RUNTIME_OVERLAY_H
#define MLR_RUNTIME_OVERLAY_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/squash.h"

struct overlay {
	int scratch; /* top of a tmpfs that covers /tmp of the mount namespace and holds what is
			written */
	int root;    /* top of the overlay */
};

#define OVERLAY_INIT { -1, -1 }

/*
 * Mount the plan's lower trees, or its squashfs file, with a tmpfs upper layer, in which the directories that lead to the
 * plan's targets are already there. Leaves the working directory in the scratch.
 *
 *   server  squash_start()'s, where the plan has a squashfs file
 */
int overlay_mount(const struct plan *p, const struct squash_server *server, struct overlay *ret, struct mlr_error *err);
void overlay_done(struct overlay *o);

#endif
