/* Parses options that several of mltrain's commands have, into the field they are given
 * (OPT_PARSE). */
#ifndef MLT_ARG_H
#define MLT_ARG_H

#include "base/options.h"
#include "model/net_file.h"
#include "train/predictor.h"

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

/* Check that there is a checkpoint and cut the threads, for the check of a command's syntax. */
void predictor_check(struct predictor_options *o, struct argp_state *state);

#endif
