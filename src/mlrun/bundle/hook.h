/* Runs the hooks of a bundle (runtime-spec, config.md, "POSIX-platform Hooks"). */
#pragma once

#include "bundle/state.h"

/*
 * Run a stage's hooks in their order, each with the container's state on its standard input.
 *
 * Returns 0; -EIO for one that failed, naming it; -ETIMEDOUT. The rest then does not run.
 */
int hooks_run(const struct state *s, const struct bundle *b, enum bundle_stage stage,
	enum status status, struct mlr_error *err);
