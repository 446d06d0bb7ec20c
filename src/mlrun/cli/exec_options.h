/*
 * The options of exec, which shell and others that start containers take as well: the table that is
 * their --help, and its parser.
 */
#ifndef MLR_CLI_EXEC_OPTIONS_H
#define MLR_CLI_EXEC_OPTIONS_H

#include "cli/common.h"
#include "cli/explain.h"
#include "exec/exec.h"

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

#endif
