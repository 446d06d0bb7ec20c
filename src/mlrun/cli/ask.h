/*
 * Asking the user on the terminal, wherever stdin and stdout lead.
 */
#ifndef MLR_CLI_ASK_H
#define MLR_CLI_ASK_H

#include "base/error.h"

/* Returns 0 and the answer, without its newline, to free(); -ENXIO when there is no terminal;
 * -ECANCELED for end of file and for Control-C. */
int ask_line(const char *prompt, char **ret, struct mlr_error *err);

/* The same, with nothing to be seen of the answer. To be given to credential_free_secret(). */
int ask_secret(const char *prompt, char **ret, struct mlr_error *err);

#endif
