/* Directories in memory as users write them: DST[:OPTIONS]. */
#ifndef MLR_EXEC_TMPFS_H
#define MLR_EXEC_TMPFS_H

#include "base/error.h"
#include "base/strv.h"
#include "plan/plan.h"

/*
 * Add one --tmpfs to the plan. OPTIONS, separated by commas: size=SIZE (1g, 50%), mode=OCTAL, 1777
 * unless given, nr_inodes=N, and the flags of volume_flag().
 */
int tmpfs_plan(const char *text, struct plan *p, struct mlr_error *err);

/* Words "size=…", "mode=…", "nr_inodes=…" as the kernel wants them, tmpfs(5). Returns 0, -EINVAL
 * for a value that is none, -ENOENT for another word. */
int tmpfs_option(const char *word, struct strv *options, struct mlr_error *err);

/* Add a tmpfs with these options, which may lack a mode. */
int tmpfs_add(const char *target, const struct strv *options, unsigned flags, struct plan *p,
	struct mlr_error *err);

#endif
