/* The command's environment: the caller's, the image's, files' and options' variables; later ones
 * win. */
#ifndef MLR_EXEC_ENVIRONMENT_H
#define MLR_EXEC_ENVIRONMENT_H

#include "base/error.h"
#include "exec/exec.h"
#include "plan/plan.h"

/*
 * Fill in p->env and p->dropped.
 *
 *   caller  the caller's environ
 *   image   the image's Env
 *
 * Returns 0, or -EINVAL for an invalid variable, naming the option or the file and line.
 */
int environment_plan(const struct exec_options *o, char *const *caller, const struct strv *image,
	struct plan *p, struct mlr_error *err);

/* The same for an existing container: the joined process's variables, of origin
 * PLAN_FROM_JOINED, then the options'. */
int environment_plan_joined(const struct exec_options *o, char *const *caller,
	const struct strv *joined, struct plan *p, struct mlr_error *err);

/* Leave out the caller's TMPDIR and kin (TMP, TEMP, TEMPDIR, XDG_RUNTIME_DIR) if their directory is
 * not mounted, with a remark in the plan. Call this when all mounts are in the plan. */
void environment_drop_unmounted(struct plan *p);

#endif
