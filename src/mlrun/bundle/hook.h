/* Runs the hooks of a bundle (runtime-spec, config.md, "POSIX-platform Hooks"). */
#ifndef MLR_BUNDLE_HOOK_H
#define MLR_BUNDLE_HOOK_H

#include "bundle/bundle.h"

/*
 * Run a stage's hooks in their order, each with the state on its standard input.
 *
 *   state  JSON text
 *
 * Returns 0; -EIO for one that failed, naming it; -ETIMEDOUT. The rest then does not run.
 */
int hooks_run(
	const struct bundle *b, enum bundle_stage stage, const char *state, struct mlr_error *err);

#endif
