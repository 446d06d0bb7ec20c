/*
 * Knows commands and options of docker(1), podman(1), apptainer(1) and enroot(1) that mlrun lacks,
 * and what to type instead.
 */
#ifndef MLR_CLI_FOREIGN_H
#define MLR_CLI_FOREIGN_H

#include "base/base.h"

#include <argp.h>

/* Find what to type instead of a command, perhaps of two words ("system prune"; next may be NULL);
 * NULL for an unknown one. */
const char *foreign_command(const char *word, const char *next);

/*
 * What to type instead of an option of one of mlrun's own commands.
 *
 *   command  "images"
 *   option   an argument as typed: "-q", "-qa", "--format={{.ID}}"
 *
 * NULL for other arguments and unknown options.
 */
const char *foreign_option(const char *command, const char *option);

/*
 * An option of docker-run(1), podman-run(1) and the like that exec lacks: either mlrun behaves so
 * anyway, or the user must type something else. (docker_options.c)
 */
struct docker_option {
	const char *name; /* without dashes */
	char letter;      /* or 0 */
	const char *why;  /* what mlrun does instead, a sentence */
	const char *hint; /* what to type instead, or NULL */
	const char *same; /* values that change nothing, "host|keep-id"; "*": all; "": a switch that
			     changes nothing; NULL: none */
	int (*is_so)(const char *value); /* in place of same: does this value change nothing? */
	int with_rm;                     /* allowed only with --rm */
};

/* Is the next word its value? Known only for options that may change nothing. */
int docker_option_takes_value(const struct docker_option *d);

/* Does it change nothing? value: NULL without one. */
int docker_option_is_so(const struct docker_option *d, const char *value);

/* Find an option by its name (len bytes) or its letter; NULL if unknown. */
const struct docker_option *docker_option_named(const char *name, size_t len);
const struct docker_option *docker_option_letter(char letter);

/*
 * Go through exec's command line up to its first operand, before it is parsed: refuse options of
 * Docker's that mean something here, with a message and CLI_FAILED; remove those that change
 * nothing, and make "--init=true" "--init".
 *
 *   argc, argv  argv[0] is the command
 *   options     exec's own
 */
void unknown_option_check(int *argc, char **argv, const struct argp_option *options);

/* Refuse an option that other programs' commands of this name have, with what to type instead. */
void foreign_options_refuse(int *argc, char **argv, const struct argp_option *options);

#endif
