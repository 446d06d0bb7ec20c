/* A root whose upper layer is kept, for named containers (store/container.h). */
#pragma once

#include "plan/plan.h"
#include "runtime/overlay.h"

/*
 * Mount the overlay again, with what was made in memory as its topmost lower layer and the
 * directory "upper" of plan->kept on top. If "upper" is missing, it is made with the attributes of
 * the image's top.
 *
 * Nothing may be mounted on the overlay, and only o->root may be open in it.
 *
 * Returns 0; -EBUSY if another overlay of this machine uses the upper layer (the kernel sees this
 * across namespaces); -EINVAL and the like if its file system cannot hold one.
 */
int kept_mount(const struct plan *p, struct overlay *o, struct mlr_error *err);

/* Does an overlay of this machine use "upper" of this container's directory? Also returns 0 if user
 * namespaces are forbidden and it cannot find out. */
int kept_is_mounted(const char *dir);
