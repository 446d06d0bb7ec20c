/*
 * A root whose upper layer is kept: a named container's (store/container.h).
 */
#ifndef MLR_RUNTIME_KEPT_H
#define MLR_RUNTIME_KEPT_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/overlay.h"

/*
 * Mount the overlay again, with what was made in memory as its topmost lower layer and plan->kept's
 * directory "upper" on top. That appears, with the attributes that the image's top has, when it is
 * not there yet.
 *
 * Nothing may be mounted on the overlay, and no descriptor but o->root be open in it.
 *
 * Returns 0; -EBUSY when the upper layer is in another overlay of this machine (the kernel knows,
 * in whatever namespaces that is); -EINVAL and the like where its file system cannot have one.
 */
int kept_mount(const struct plan *p, struct overlay *o, struct mlr_error *err);

/* Is "upper" of this directory of a container's in an overlay of this machine? 0 also where that
 * cannot be told, as user namespaces are forbidden. */
int kept_is_mounted(const char *dir);

#endif
