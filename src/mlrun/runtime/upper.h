/*
 * Fills the overlay's upper layer before the overlay is mounted: mount points, host files, passwd
 * and group. Through overlayfs this takes several times as long. Also, overlayfs merges existing
 * directories, but cannot copy up one whose user or group has no id in this user namespace (an
 * administrator's image, a group changed by newgrp).
 */
#pragma once

#include "plan/plan.h"
#include "runtime/source.h"

/*
 * Fill the upper layer, as far as plain directories lead; what lies behind links of the image is
 * left to the overlay. Directories get the image's modes and times, and the owners that a fake root
 * recorded. Makes the directories of plan->open.
 *
 *   src       one for each mount of the plan; sets done and fresh
 *   image     the root's trees, the upper layer itself first if it is not new
 *   upper     its directory
 *   scratch   directory of a tmpfs: "mount<i>" is made there for each PLAN_TMPFS without options
 *   accounts  set to 1 when passwd and group are in place
 *
 * Returns 0; -EISDIR if the image's /etc/passwd or group is a directory; -errno.
 */
int upper_fill(const struct plan *p, struct source *src, const struct stack *image, int upper,
	int scratch, int *accounts, struct mlr_error *err);

/* Make what entry i is mounted from, "mount<i>" in the scratch: an empty directory, or a file with
 * its text. */
int upper_make_source(const struct plan *p, size_t i, int scratch, struct mlr_error *err);
