/* The options of commands that predict from a checkpoint: eval, predict and serve. */
#ifndef MLT_PREDICTOR_ARG_H
#define MLT_PREDICTOR_ARG_H

#include "base/options.h"
#include "train/predictor.h"

/* Their rows, which fill a struct predictor_options. */
extern const struct option_row predictor_rows[];

/* Their defaults. */
struct predictor_options predictor_options(void);

/* Check that there is a checkpoint and cut the threads, for the check of a command's syntax. */
void predictor_check(struct predictor_options *o, struct argp_state *state);

#endif
