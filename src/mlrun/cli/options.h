/* Reads the arguments of mlrun's commands (base/options.h), with the options that many of them
 * have. */
#pragma once

#include "base/config.h"
#include "base/options.h"
#include "cli/common.h"
#include "registry/registry.h"

/* The row of --json, which sets the int json. */
#define CLI_OPTION_JSON(type)                                                                  \
	{                                                                                      \
		"json", 0, 0, 0, "print JSON; the man page lists its keys", 0, OPT(type, json) \
	}

/* The row of -q, in a group of --help. */
#define CLI_OPTION_QUIET(group)                                                                \
	{                                                                                      \
		"quiet", 'q', 0, 0, "print only errors", group, OPT_CALL(cli_options_be_quiet) \
	}
void cli_options_be_quiet(void *args, char *arg, struct argp_state *state);
void cli_options_be_verbose(void *args, char *arg, struct argp_state *state);

/* A command's arguments. The struct is static: what its fields own is kept to the end of the
 * program. It begins with a struct cli_common, unless no_store is set. */
struct cli_syntax {
	struct options_syntax s; /* its last two shared tables are free */
	size_t registry;         /* offset of a struct cli_registry; 0: none */
	int no_store;            /* takes no --store and --verbose */
};

/* Fill a command's struct from its command line, or exit with a message. */
void cli_options_parse(int argc, char **argv, const struct cli_syntax *syntax, void *args);

/* Parse --interval's seconds, 0.1 to 86400, to milliseconds in a long. */
void cli_options_interval(void *field, char *arg, struct argp_state *state);

/* Options of all commands that use a registry: --tls-verify, --authfile, and mlrun.conf. */
struct cli_registry {
	struct registry_options options; /* without callbacks */
	int bare_tls_verify;             /* given without =BOOL */
	struct config config;
};

#define CLI_REGISTRY_INIT                \
	{                                \
		.options.tls_verify = 1, \
	}

/*
 * After parsing: refuse "--tls-verify false", which would take "false" for a name, and read
 * mlrun.conf for the options, which point into r.
 *
 *   first  the first operand, or NULL
 *
 * Returns 0, -EINVAL, or config_load()'s errors.
 */
int cli_registry_load(struct cli_registry *r, const char *first, struct mlr_error *err);
