/*
 * Reads a command's arguments by a table: a row of --help for each option, and the field of the
 * command's struct that gets its value. argp(3) does the parsing.
 */
#ifndef MLR_CLI_OPTIONS_H
#define MLR_CLI_OPTIONS_H

#include "base/config.h"
#include "base/error.h"
#include "base/strv.h"
#include "cli/common.h"
#include "registry/registry.h"

#include <argp.h>
#include <stddef.h>

enum cli_target_kind { CLI_NOWHERE, CLI_SET, CLI_WORD, CLI_LIST, CLI_CALL };

/* Where a value goes: a field of the command's struct, or a function. */
struct cli_target {
	enum cli_target_kind kind;
	int value; /* CLI_SET: the field's new value */
	size_t at; /* the field's offset */
	/* CLI_CALL: gets the command's struct, or the shared one that the row belongs to. Reports
	 * an invalid value with argp_error(). */
	void (*call)(void *args, char *arg, struct argp_state *state);
};

/* A field: an int is set to v (1), a string to the last value, a struct strv collects all
 * values. */
#define CLI_TO_VALUE(type, field, v)                                            \
	{                                                                       \
		.kind = _Generic(((type *)0)->field,                          \
			int: CLI_SET,                                         \
			unsigned: CLI_SET,                                    \
			const char *: CLI_WORD,                               \
			struct strv: CLI_LIST),                               \
		.at = offsetof(type, field), .value = v \
	}
#define CLI_TO(type, field) CLI_TO_VALUE(type, field, 1)
#define CLI_TO_CALL(function)                      \
	{                                          \
		.kind = CLI_CALL, .call = function \
	}

/* The members are those of struct argp_option, and the target. A row without a name is a heading;
 * an alias has the target of the row before it. */
struct cli_option {
	const char *name;
	char letter;     /* or 0 */
	const char *arg; /* NULL: no value */
	int flags;       /* OPTION_HIDDEN and the like */
	const char *doc;
	int group;
	struct cli_target to;
};

/* The row of --json, which sets the int json. */
#define CLI_OPTION_JSON(type)                                                                     \
	{                                                                                         \
		"json", 0, 0, 0, "print JSON; the man page lists its keys", 0, CLI_TO(type, json) \
	}

/* The row of -q, in a group of --help. */
#define CLI_OPTION_QUIET(group)                                                                   \
	{                                                                                         \
		"quiet", 'q', 0, 0, "print only errors", group, CLI_TO_CALL(cli_options_be_quiet) \
	}
void cli_options_be_quiet(void *args, char *arg, struct argp_state *state);

/* A command's arguments. Its struct begins with a struct cli_common, unless no_store is set. */
struct cli_syntax {
	const struct cli_option *options; /* the last is zeroed; NULL: only the common ones */
	const struct cli_option *more;    /* further ones, which yield to these; may be NULL */
	const char *args_doc, *doc;       /* argp's */
	size_t registry;                  /* offset of a struct cli_registry; 0: none */
	int no_store;                     /* takes no --store and --verbose */
	int in_order;                     /* options end at the first operand */

	/* The operands in order; a first one that is a list or a function takes all. */
	struct cli_target operands[2];
	size_t needed;       /* so many are required */
	const char *missing; /* message */
	const char *surplus; /* message for a surplus operand; NULL: argp's */

	/* Called at the end: options that contradict each other. May be NULL. */
	void (*check)(void *args, struct argp_state *state);

	/* Called for each of `more` on the command line; arg may be NULL. May be NULL. */
	void (*seen)(void *args, const char *name, const char *arg);

	/* Called with the command line and its options before parsing. May be NULL. */
	void (*look)(int *argc, char **argv, const struct argp_option *options);
};

/* Fill a command's struct from its command line, or exit with a message. */
void cli_options_parse(int argc, char **argv, const struct cli_syntax *syntax, void *args);

/* A whole number from min to max, or -1. */
long cli_options_number(const char *text, long min, long max);
/* Parse --interval's seconds, 0.1 to 86400. Returns milliseconds, or exits on wrong usage. */
long cli_options_interval(const char *arg, const struct argp_state *state);

/* Options of all commands that use a registry: --tls-verify, --authfile, and mlrun.conf. */
struct cli_registry {
	int tls_verify, bare_tls_verify; /* the latter: given without =BOOL */
	const char *authfile;
	struct config config;
};

#define CLI_REGISTRY_INIT               \
	{                               \
		1, 0, NULL, CONFIG_INIT \
	}

/*
 * After parsing: refuse "--tls-verify false", which would take "false" for a name, and read
 * mlrun.conf.
 *
 *   first  the first operand, or NULL
 *
 * Returns 0, -EINVAL, or config_load()'s errors.
 */
int cli_registry_load(struct cli_registry *r, const char *first, struct mlr_error *err);
void cli_registry_done(struct cli_registry *r);

/* For registry_new(); borrows from r. */
struct registry_options cli_registry_options(const struct cli_registry *r);

#endif
