/* --explain: a plan told instead of made true. */
#ifndef MLR_CLI_EXPLAIN_H
#define MLR_CLI_EXPLAIN_H

#include "plan/plan.h"

/* How a plan shall be told. */
enum cli_explain { CLI_EXPLAIN_NO, CLI_EXPLAIN_TEXT, CLI_EXPLAIN_JSON };

/* "json" or NULL of --explain[=json]; CLI_EXPLAIN_NO for anything else. */
enum cli_explain cli_explain_parse(const char *arg);

/* Print it on stdout. Returns 0, or CLI_FAILED when stdout does not take it. */
int cli_explain_print(const struct plan *p, enum cli_explain how);

#endif
