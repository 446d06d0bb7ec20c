/* The command's environment: caller's, image's, files', options'; later wins. */
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
 * Returns 0, or -EINVAL for what is no variable, naming the option or the file and line.
 */
int environment_plan(const struct exec_options *o, char *const *caller, const struct strv *image,
	struct plan *p, struct mlr_error *err);

/* The same for a container that is there already: that process's variables, then the options'.
 * Origin "joined". */
int environment_plan_joined(const struct exec_options *o, char *const *caller,
	const struct strv *joined, struct plan *p, struct mlr_error *err);

/* Leave out the caller's TMPDIR and kin (TMP, TEMP, TEMPDIR, XDG_RUNTIME_DIR) when they name a
 * directory that is not mounted, with a remark in the plan. After all mounts are in
 * the plan. */
void environment_drop_unmounted(struct plan *p);

#endif
