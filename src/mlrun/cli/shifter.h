/* Shared by shifter and shifterimg. */
#pragma once

#include "shifter/udiroot.h"
#include "store/stores.h"

/* Read the site's udiRoot.conf: the file that MLRUN_UDIROOT names, else Shifter's own place. */
int shifter_site(struct udiroot *ret, struct mlr_error *err);

/* Call row for every image in the stores. Returns 0, or a negative errno of opening or listing. */
int shifter_each_image(void (*row)(const struct store_image *im), struct mlr_error *err);

/* `shifter --image=NAME [COMMAND [ARG...]]`. wanted: the environment's image, or NULL. */
int shifter_run_by_option(int argc, char **argv, const char *wanted);

/* `shifter run IMAGE [COMMAND [ARG...]]`. */
int shifter_run(int argc, char **argv);

/*
 * The kernel gives an interpreter the rest of its line as one argument:
 * "#!/usr/bin/shifter --image=debian:12 /bin/bash" has argv[1] "--image=debian:12 /bin/bash", and
 * then comes the script. Cut it into words; anything else stays as it is. list owns the words.
 */
void shifter_split_interpreter_line(int *argc, char ***argv, struct strv *list);
