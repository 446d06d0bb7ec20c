/* What several of mltrain's commands have: options, parsed into the field they are given
 * (OPT_PARSE), and the record of a test. */
#pragma once

#include "base/options.h"
#include "data/dataset.h"
#include "model/net_file.h"
#include "train/train.h"
#include "train/predictor.h"

#include <jansson.h>

#define ARG_THREADS_MAX 1024

/* --input, a struct shape: the channels, height and width of images, CxHxW. */
void arg_input(void *field, char *arg, struct argp_state *state);

/* --backend, a const struct backend *. */
void arg_backend(void *field, char *arg, struct argp_state *state);

/* --dtype, an enum dtype or an int. */
void arg_dtype(void *field, char *arg, struct argp_state *state);

/* --isa takes effect at once, and has no field. */
void arg_isa(void *field, char *arg, struct argp_state *state);

/* The rows of --input and --classes, which fill a struct net_wish. */
extern const struct option_row arg_net_rows[];

/* The options of commands that predict from a checkpoint: eval, predict and serve. */

/* Their rows, which fill a struct predictor_options. */
extern const struct option_row predictor_rows[];

/* Their defaults. */
struct predictor_options predictor_options(void);

/* Check that there is a checkpoint and cut the threads: the check of a command's syntax, whose args
 * begin with a struct predictor_options. */
void predictor_check(void *args, struct argp_state *state);

/*
 * Make the record of a test, {"event": "test", ...}: the confusion matrix, and the worst mistakes
 * as pictures. mltrain eval --json prints it, and the log of a run contains it; mltrain(1) lists
 * its keys.
 *
 *   names   names of the network's classes [e->classes], or NULL
 *   step    of the network
 */
json_t *test_record(
	const struct evaluation *e, const struct dataset *data, char *const *names, uint64_t step);
