/*
 * Options that mlrun does not have: of what Docker's and podman's users may type, what is so
 * already passes, and what is not so has its counterpart named, or the reason why there is none;
 * anything else the nearest spelling.
 */
#ifndef MLR_CLI_UNKNOWN_OPTION_H
#define MLR_CLI_UNKNOWN_OPTION_H

#include <argp.h>

/*
 * Look at the options of a command line up to its first argument that is none. An unknown one is
 * told and exits with CLI_FAILED; what getopt_long(3) takes passes, its abbreviations too. Those
 * that ask for what is so already are taken out, and "--init=true" becomes "--init".
 *
 *   argc, argv  argv[0] is the command
 *   options     the command's own; --store, --verbose and argp's --help, --usage and --version are
 *               known
 */
void unknown_option_check(int *argc, char **argv, const struct argp_option *options);

#endif
