/*
 * Commands and options of docker(1), podman(1), apptainer(1) and enroot(1) that mlrun does not
 * have: what to type instead.
 */
#ifndef MLR_CLI_FOREIGN_H
#define MLR_CLI_FOREIGN_H

#include <argp.h>
#include <stddef.h>

/* What to type instead of a command, which may be of two words ("system prune"; next may be NULL);
 * NULL for one that nobody has. */
const char *foreign_command(const char *word, const char *next);

/*
 * What to type instead of an option of one of mlrun's own commands.
 *
 *   command  "images"
 *   option   an argument as it was typed: "-q", "-qa", "--format={{.ID}}"
 *
 * NULL for what is no option, or none that is known here.
 */
const char *foreign_option(const char *command, const char *option);

/*
 * An option of docker-run(1), podman-run(1) and kin that exec does not have: it asks for what is so
 * already, or something else is to be typed. (docker_options.c)
 */
struct docker_option {
	const char *name; /* without dashes */
	char letter;      /* or 0 */
	const char *why;  /* what mlrun does in this matter, a sentence */
	const char *hint; /* what to type instead, or NULL */
	const char *same; /* values that ask for what is so already, "host|keep-id"; "*": all; "":
			   * it is a switch, and on is so already; NULL: none */
	int (*is_so)(const char
			*value); /* in place of same: does this value ask for what is so already? */
	int with_rm;             /* only beside --rm */
};

/* Is a value its next word? Known only of those that may ask for what is so already. */
int docker_option_takes_value(const struct docker_option *d);

/* Does it ask for what is so already?  value: NULL when none was given */
int docker_option_is_so(const struct docker_option *d, const char *value);

/* An option by its name (len bytes of it) or by its letter; NULL when it is none of these. */
const struct docker_option *docker_option_named(const char *name, size_t len);
const struct docker_option *docker_option_letter(char letter);

/*
 * Look at the options of a command line up to its first argument that is none. An unknown one is
 * told and exits with CLI_FAILED; what getopt_long(3) takes passes, its abbreviations too. Those
 * that ask for what is so already are taken out, and "--init=true" becomes "--init".
 *
 *   argc, argv  argv[0] is the command
 *   options     those that there are; argp's --help, --usage and --version are known
 */
void unknown_option_check(int *argc, char **argv, const struct argp_option *options);

#endif
