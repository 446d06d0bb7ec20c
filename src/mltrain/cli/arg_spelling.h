/*
 * Refuses options that a command does not have. Separate from arg.h because mltrain-fetch links no
 * backend.
 */
#ifndef MLT_ARG_SPELLING_H
#define MLT_ARG_SPELLING_H

#include <argp.h>

/*
 * Check the long options of a command line. An unknown one ends the program with the nearest
 * spelling as a hint. argv[0] is the command; options are argp's.
 */
void arg_check_spelling(char *const *argv, const struct argp_option *options);

#endif
