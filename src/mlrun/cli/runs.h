/*
 * Remembers how the containers of a job were started, for `mlrun rerun` and for papers: a file a
 * job, $XDG_STATE_HOME/mlrun/runs/JOB.jsonl (~/.local/state), with a JSON object on a line for each
 * start, by rank 0 alone. Its keys are in mlrun-rerun(1). Values of variables are not in it, since
 * some are secrets.
 */
#pragma once

#include "base/config.h"
#include "cli/exec_options.h"

#include <jansson.h>

/* Add a start, if this is a job's and the setting "record" does not forbid it. That it cannot be
 * written is no error of the start. */
void runs_add(const struct cli_exec *x, const struct config *config, const struct plan *p);

/*
 * Read the starts of a job, a list of objects.
 *
 *   job  its id, which may be followed by ".STEP"
 *
 * Returns 0; -ENOENT with a hint; -EINVAL for an invalid id; -EACCES for a file of another user's.
 */
int runs_read(const char *job, json_t **ret, struct mlr_error *err);
