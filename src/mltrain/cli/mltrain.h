/*
 * trainer: mltrain, a CNN trainer; a program of its own that shares only base/ with mlrun.
 *
 * The rooms inside: tensor (shapes, random numbers, files), data (data sets), backend (arithmetic),
 * model (networks and checkpoints), dist (several ranks), train (the loop), metrics (what is told
 * of it), report (what logs show), bench (rates and limits). The files beside this one are the
 * program: they read options, print, and decide exit statuses.
 */
#ifndef MLT_MLTRAIN_H
#define MLT_MLTRAIN_H

#include "base/error.h"
#include "cli/arg.h"
#include "cli/arg_spelling.h"

#include <argp.h>
#include <stdint.h>

/* Exit statuses. */
enum {
	EXIT_BROKEN = 1, /* what was asked for failed */
	EXIT_USAGE = 2,  /* wrong options */
};

int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_fetch(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_net(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* Print "mltrain: text" on stderr, a hint on its own line, and return EXIT_BROKEN. */
int main_fail(const struct mlr_error *err);

/* A name that a stranger chose, on stdout: control characters are escaped. */
void print_shown(const char *name);

/* "test accuracy 97.98 % (error 2.02 %)" on stdout: the same line from train and eval. */
void print_accuracy(int64_t wrong, uint32_t count);

#endif
