/*
 * Reads the options of exec and shell, and runs exec.
 */
#pragma once

#include "cli/common.h"
#include "exec/exec.h"
#include "plan/plan.h"

struct option_row;

/* --explain: print the plan in this form. */
enum cli_explain { CLI_EXPLAIN_NO, CLI_EXPLAIN_TEXT, CLI_EXPLAIN_JSON };

struct cli_exec {
	struct cli_common common; /* --store and --verbose */
	struct exec_options exec; /* strings are argv's */
	char *const *argv;        /* the whole command line, from the command's name on */
	const char *image_word;   /* the image in it: a word or its end; NULL: exec.image */
	const char *save;         /* --save, or NULL */
	const char *env_out;      /* --env-out: where to write the command's variables; NULL */
	char *image_place;        /* exec.image, owned: "sif:x.sif" for "x.sif"; or NULL */
	char *join_env;           /* exec.join_env, owned */
	const char *join_name;    /* --join's service, or NULL; exec.join is its process then */
	const char *name;         /* --name: without --rm it is refused */
	int rm;
	unsigned given; /* bits of the command's own rows */
	enum cli_explain explain;
	int command_optional; /* set before parsing; --join needs no command */
	const char *operand;  /* the same: what the first operand is; NULL: an image */
	/* Changes the finished plan, before it is printed or made true; or NULL. */
	void (*adjust)(struct plan *p);
};

/*
 * Read a command's arguments: options, the image, and the contained command, which is not
 * interpreted.
 *
 *   args_doc, doc  --help's text before and after the options, as in argp
 *
 * Exits with CLI_FAILED on wrong usage, with a hint: for an option of Docker or podman that mlrun
 * lacks, what to use instead; for other unknown options, which one may be meant.
 */
void cli_exec_parse(
	int argc, char **argv, const char *args_doc, const char *doc, struct cli_exec *ret);

/*
 * The same for a command with options of its own, whose struct begins with struct cli_exec.
 *
 *   own   its options; one of exec's of the same name yields
 *   seen  called for each of exec's on the command line; arg NULL: without a value
 */
void cli_exec_parse_with(int argc, char **argv, const struct option_row *own,
	void (*seen)(void *args, const char *name, const char *arg), const char *args_doc,
	const char *doc, struct cli_exec *ret);

/* For seen(): keep an option in its long form, and a variable in a list of its own, as its value
 * shall stand in no command line. */
void cli_exec_keep(const char *name, const char *arg, struct strv *words, struct strv *env);

/* Begin a command line of exec: the store (NULL: the usual), options (words), and variables, or
 * NULL. */
void cli_exec_words(
	struct strv *ret, const char *store, const struct strv *words, const struct strv *env);

/*
 * Fetch the image if --pull says so, make the plan, and become the command; or print the plan
 * (--explain).
 *
 *   become  turns the process, already in the container, into the command, and returns like
 *           runtime_exec(); NULL: runtime_exec()
 *
 * Returns the exit status after a failure, which was printed. (cmd_exec.c)
 */
int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err));

/* The name of the caller's shell outside; the image may lack it. (cmd_shell.c) */
const char *cli_callers_shell(void);

/* For cli_exec_run(): become the command's first word as a shell if the image has it, else bash,
 * else sh. (cmd_shell.c) */
int cli_become_shell(struct plan *p, struct mlr_error *err);
