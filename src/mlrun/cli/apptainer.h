/*
 * apptainer, singularity: Apptainer's command line, translated to mlrun's. All that a container of
 * this dialect has and lacks is decided by exec (enum exec_dialect); here are only words.
 */
#pragma once

#include "cli/cli.h"
#include "cli/options.h"

#define APPTAINER_FAILED 255 /* the exit status in place of CLI_FAILED */
#define APPTAINER_USAGE  1   /* for a command line that cannot be read */

/* The exit status for one of mlrun's. */
int apptainer_status(int status);

/* pull, build, inspect and run-help; argv[1] is the command (apptainer_make.c). */
int apptainer_make(int argc, char **argv);

/* Parse an option's values, several by comma, into a struct strv. */
void apptainer_list(void *list, char *arg, struct argp_state *state);

/* Set the exit statuses of failures. */
void apptainer_begin(void);

/* The value of APPTAINER_NAME, else of SINGULARITY_NAME; NULL if neither is set to something. */
char *apptainer_variable(const char *name);

/* exec, run, shell, test, and instance start and run (apptainer_run.c). */
int apptainer_run(int argc, char **argv);

/*
 * Find what an image's word means to mlrun: "sif:x.sif" for a file, "rootfs:DIR" for a directory,
 * "docker.io/library/debian" for docker://debian. To free(); NULL with -ENOENT or -ENOTSUP in err.
 */
char *apptainer_image(const char *word, struct mlr_error *err);
