/*
 * The overlay's upper layer, filled before the overlay is mounted: places to mount at, files of the
 * host's, passwd and group. What overlayfs makes itself takes it several times as long, and it
 * cannot copy up a directory of another user or group, for whom this user namespace has no id (an
 * administrator's image, a group changed by newgrp): one that is already there is merged.
 */
#ifndef MLR_RUNTIME_UPPER_H
#define MLR_RUNTIME_UPPER_H

#include "base/error.h"
#include "plan/plan.h"
#include "runtime/source.h"
#include "runtime/stack.h"

/*
 * Fill it as far as plain directories lead; what lies behind links of the image is left to the
 * overlay. Directories get the image's modes and times, and those of plan->open are made.
 *
 *   src       one a mount of the plan; done and fresh are set here
 *   image     the root's trees, the upper layer itself first when it is not new
 *   upper     its directory
 *   scratch   directory of a tmpfs: "tmpfs<i>" is made there for each PLAN_TMPFS without options
 *   accounts  set to 1 when passwd and group are in place
 *
 * Returns 0; -EISDIR when the image's /etc/passwd or group is a directory; -errno.
 */
int upper_fill(const struct plan *p, struct source *src, const struct stack *image, int upper,
	int scratch, int *accounts, struct mlr_error *err);

#endif
