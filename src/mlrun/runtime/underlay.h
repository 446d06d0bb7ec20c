/*
 * A root without overlayfs: for kernels that refuse it to users (before Linux 5.11), file systems
 * that cannot be a lower layer, and deeply nested containers. It binds the image's tree piece by
 * piece, read-only. A directory that needs a mount point which the image lacks is made in the
 * scratch tmpfs, and the image's entries are bound into it.
 */
#ifndef MLR_RUNTIME_UNDERLAY_H
#define MLR_RUNTIME_UNDERLAY_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/overlay.h"

/* Can this plan do without an overlay: is its root one tree, with no kept changes? */
int underlay_serves(const struct plan *p, const struct overlay *o);

/* Build o->root from the tree and from what upper_fill() has put into the upper layer. */
int underlay_mount(struct overlay *o, struct mlr_error *err);

#endif
