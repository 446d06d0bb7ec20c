/* The options of commands that predict from a checkpoint: eval, predict and serve. */
#ifndef MLT_PREDICTOR_ARG_H
#define MLT_PREDICTOR_ARG_H

#include "train/predictor.h"

#include <argp.h>

/* The options, for a command's table and at the end of its parse function; a command's own keys
 * begin with PREDICTOR_KEYS. */
enum { PREDICTOR_CHECKPOINT = 256, PREDICTOR_BACKEND, PREDICTOR_DTYPE, PREDICTOR_KEYS };

/* clang-format off */
#define PREDICTOR_OPTIONS                                                                       \
	{ "checkpoint", PREDICTOR_CHECKPOINT, "FILE", 0,                                        \
		"a checkpoint of mltrain train", 1 },                                    \
	{ "threads", 't', "N", 0, "number of threads (one for each usable CPU)", 2 },            \
	{ "backend", PREDICTOR_BACKEND, "NAME", 0,                                              \
		"one that mltrain --version lists, or auto (auto)", 2 },                        \
	{ "dtype", PREDICTOR_DTYPE, "TYPE", 0, "f32, bf16 or tf32 (the one of training)", 2 }
/* clang-format on */

/* Their defaults. */
struct predictor_options predictor_options(void);

/* An argp_parser_t: parses the options above and finally checks that there is a checkpoint. */
error_t predictor_parse(int key, char *arg, struct argp_state *state, struct predictor_options *o);

#endif
