/*
 * trainer: mltrain, a CNN trainer; a program of its own that shares only base/ with mlrun.
 *
 * The rooms inside: tensor (shapes, random numbers, files), data (data sets), backend (arithmetic),
 * model (networks and checkpoints), train (the loop). The files beside this one are the program:
 * they read options, print, and decide exit statuses.
 */
#ifndef MLT_MLTRAIN_H
#define MLT_MLTRAIN_H

#include "base/error.h"

#include <argp.h>
#include <stdint.h>

/* Exit statuses. */
enum {
	EXIT_BROKEN = 1, /* what was asked for failed */
	EXIT_USAGE = 2,  /* wrong options */
};

int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);

/* Print "mltrain: text" on stderr, a hint on its own line, and return EXIT_BROKEN. */
int main_fail(const struct mlr_error *err);

/*
 * Options' numbers: what lies outside [min, max] (or, for doubles, at a bound that is excluded) or
 * is no number ends the program as argp_error(3) does, naming the option.
 */
uint64_t arg_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max);
double arg_number(
	struct argp_state *state, const char *option, const char *text, double min, double max);

/* "test accuracy 97.98 % (error 2.02 %)" on stdout: the same line from train and eval. */
void print_accuracy(int64_t wrong, uint32_t count);

#endif
