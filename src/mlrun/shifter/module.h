/*
 * Shifter's modules: what a site offers by a name, such as "gpu" and "mpich". udiRoot.conf defines
 * them; four are known without it.
 */
#pragma once

#include "exec/exec.h"
#include "plan/plan.h"
#include "shifter/udiroot.h"

/*
 * The modules to use, in order.
 *
 *   asked  --module's texts, "a,b"; if there are none SHIFTER_MODULE's, else the site's standard
 *          ones. "none" alone means none.
 *   ret    names
 *
 * Returns 0, -ENOENT for an unknown one, -EINVAL for one that is switched off, contradicts another
 * or needs root.
 */
int shifter_modules_choose(
	const struct strv *asked, const struct udiroot *u, struct strv *ret, struct mlr_error *err);

/* Add the site's and the modules' file systems, GPUs and MPI to the options. Returns 0 or -errno.
 */
int shifter_modules_options(const struct strv *modules, const struct udiroot *u,
	struct exec_options *o, struct mlr_error *err);

/* Set the modules' and then the site's variables, which win over all others. */
void shifter_modules_env(const struct strv *modules, const struct udiroot *u, struct plan *p);
