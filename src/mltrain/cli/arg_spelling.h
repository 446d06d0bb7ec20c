/*
 * Options that a command does not have. Apart from the rest of what options have in common, since
 * mltrain-fetch links no backend.
 */
#ifndef MLT_ARG_SPELLING_H
#define MLT_ARG_SPELLING_H

#include <argp.h>

/*
 * Look at the long options of a command line: one that argp(3) would not know is told with the
 * nearest spelling and ends the program. argv[0] is the command; options as argp has them.
 */
void arg_check_spelling(char *const *argv, const struct argp_option *options);

#endif
