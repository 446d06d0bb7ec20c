/* What exec does once its options are read, for commands that take the same ones. */
#ifndef MLR_CLI_CMD_EXEC_H
#define MLR_CLI_CMD_EXEC_H

#include "cli/exec_options.h"
#include "plan/plan.h"

/*
 * Fetch the image if --pull says so, plan, and become the command; or print the plan (--explain).
 *
 *   become  turns the process, which is in the container by then, into the command, and returns as
 *           runtime_exec() does; NULL for that one
 *
 * Returns the exit status of what failed, which is told.
 */
int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err));

#endif
