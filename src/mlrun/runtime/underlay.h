/*
 * A root where overlayfs cannot be had: kernels that refuse it to users (before Linux 5.11), file
 * systems that may not be a lower layer, a container in a container in a container. The image's
 * tree is brought in piece by piece, read-only: a directory in which something is to be mounted
 * that the image has no place for is one of the scratch tmpfs, and what the image has in it is
 * bound into it.
 */
#ifndef MLR_RUNTIME_UNDERLAY_H
#define MLR_RUNTIME_UNDERLAY_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/overlay.h"

/* Can this plan do without an overlay: is its root one tree, and nothing of it to be kept? */
int underlay_serves(const struct plan *p, const struct overlay *o);

/* Make o->root of the tree and of what upper_fill() has put into the upper layer. */
int underlay_mount(struct overlay *o, struct mlr_error *err);

#endif
