/*
 * The options of exec, which shell takes as well, and what exec does once they are read.
 */
#ifndef MLR_CLI_EXEC_OPTIONS_H
#define MLR_CLI_EXEC_OPTIONS_H

#include "cli/common.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* --explain: how a plan is printed instead of made true. */
enum cli_explain { CLI_EXPLAIN_NO, CLI_EXPLAIN_TEXT, CLI_EXPLAIN_JSON };

struct cli_exec {
	struct cli_common common; /* --store and --verbose */
	struct exec_options exec; /* strings are argv's */
	enum cli_explain explain;
	int command_optional; /* set before parsing: --join needs no command */
};

#define CLI_EXEC_INIT \
	{             \
		0     \
	}

/*
 * Read a command's arguments: options, the image, and what follows it, which is never ours.
 *
 *   args_doc, doc  what --help says before and after the options, as argp's
 *
 * Wrong usage is told and exits with CLI_FAILED: an option that Docker or podman has and mlrun has
 * not says what to use instead, any other unknown one which it may be meant for.
 */
void cli_exec_parse(
	int argc, char **argv, const char *args_doc, const char *doc, struct cli_exec *ret);
void cli_exec_done(struct cli_exec *x);

/*
 * Fetch the image if --pull says so, plan, and become the command; or print the plan (--explain).
 *
 *   become  turns the process, which is in the container by then, into the command, and returns as
 *           runtime_exec() does; NULL for that one
 *
 * Returns the exit status of what failed, which is told. (cmd_exec.c)
 */
int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err));

#endif
