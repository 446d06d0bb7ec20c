/* Prepares a checkpoint for predicting, for eval and predict. */
#ifndef MLT_PREDICTOR_H
#define MLT_PREDICTOR_H

#include "backend/backend.h"
#include "model/checkpoint.h"

#include <argp.h>

struct predictor_options {
	const char *checkpoint;
	const struct backend *backend;
	int threads;
	int dtype; /* enum dtype, or -1: the checkpoint's if the backend has it */
	int batch; /* 0: that of training, which repeats the arithmetic of the training's own test
		    */
};

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

struct predictor {
	struct checkpoint from;
	struct engine *engine;
};

#define PREDICTOR_INIT                \
	{                             \
		CHECKPOINT_INIT, NULL \
	}

/* Returns 0 or an error of checkpoint_read() or the backend's open(). */
int predictor_open(const struct predictor_options *o, struct predictor *ret, struct mlr_error *err);
void predictor_done(struct predictor *p);

/* Return the name of a class of the network; without one, its number, written to buf. */
const char *predictor_class(const struct predictor *p, int class, char buf[12]);

#endif
