/*
 * cli: the program mltrain, a CNN trainer that shares only base/ with mlrun. The files of this room
 * read options, print, and decide exit statuses; docs/architecture.md lists the other rooms.
 */
#pragma once

#include "base/base.h"
#include "base/options.h"

/* Exit statuses. */
enum {
	EXIT_BROKEN = 1, /* the command failed */
	EXIT_USAGE = 2,  /* invalid options */
};

int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_net(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* Print "mltrain: text" on stderr, a hint on its own line, and return EXIT_BROKEN. */
int main_fail(const struct mlr_error *err);

/* Print "test accuracy 97.98 % (error 2.02 %)", the line of train and eval. */
void print_accuracy(int64_t wrong, uint32_t count);
