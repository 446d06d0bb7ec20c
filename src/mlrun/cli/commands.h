/*
 * Finds commands by their names in a table, and lists them for --help. A new command is a cmd_*.c,
 * a row in mlrun.c and a manual page. One that needs libcurl or libarchive has a row in
 * mlrun-pull.c as well, the program that mlrun then becomes.
 */
#pragma once

#include "cli/cli.h"

struct command {
	const char *name;
	cli_command run;
	const char *program; /* runs it in place of run: PROGRAM COMMAND ARGS... */
	const char *help;    /* NULL: not listed, as aliases and commands for programs */
	const char *title;   /* printed before it, where a group of the list begins; else NULL */
};

struct commands {
	const char *group;          /* the command whose subcommands these are; NULL: mlrun's */
	int knows_foreign;          /* other programs' commands get a hint, as mlrun's do */
	const char *before, *after; /* --help's text around the list */
	const struct command *rows;
	size_t n;
};

/*
 * Call the command that argv[1] names, or print the requested help.
 *
 * The command's argv[0] becomes its name, "GROUP NAME" in a group; its messages begin with it.
 * Returns the exit status; CLI_FAILED without a command or for an unknown one.
 */
int commands_run(const struct commands *c, int argc, char **argv);
