/*
 * Commands, a row each: found by their names, listed by --help. A new command is a cmd_*.c, a row
 * in mlrun.c and a manual page. One that needs libcurl or libarchive has a row in mlrun-pull.c as
 * well, which mlrun becomes (the row's program).
 */
#ifndef MLR_CLI_COMMANDS_H
#define MLR_CLI_COMMANDS_H

#include "cli/cli.h"

#include <stddef.h>

struct command {
	const char *name;
	cli_command run;
	const char *program; /* of ours, that has it in place of run: PROGRAM COMMAND ARGS... */
	const char *help;    /* NULL: an alias or for programs, not listed */
};

struct commands {
	const char *group;          /* the command whose commands these are; NULL: mlrun's own */
	const char *before, *after; /* what --help says around the list */
	const struct command *rows;
	size_t n;
};

/*
 * Call the command that argv[1] names, or print the help that it asks for.
 *
 * A command's argv[0] is its name, in a group "GROUP NAME", which its messages begin with.
 * Returns the exit status; CLI_FAILED without a command or for one that is not there.
 */
int commands_run(const struct commands *c, int argc, char **argv);

#endif
