/*
 * Options that mlrun does not have: what Docker's and podman's users may type has its counterpart
 * named, or the reason why there is none; anything else the nearest spelling.
 */
#ifndef MLR_CLI_UNKNOWN_OPTION_H
#define MLR_CLI_UNKNOWN_OPTION_H

#include <argp.h>

/*
 * Look at the options of a command line up to its first argument that is none. An unknown one is
 * told and exits with CLI_FAILED; what getopt_long(3) takes passes, its abbreviations too.
 *
 *   argv           argv[0] is the command
 *   options, more  two tables of what there is; argp's own --help, --usage and --version are known
 */
void unknown_option_check(
	char *const *argv, const struct argp_option *options, const struct argp_option *more);

#endif
