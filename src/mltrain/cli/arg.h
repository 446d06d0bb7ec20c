/*
 * What commands' options have in common. All end the program as argp_error(3) does, naming the
 * option, when a text is not what it should be.
 */
#ifndef MLT_ARG_H
#define MLT_ARG_H

#include "backend/backend.h"
#include "tensor/dtype.h"

#include <argp.h>
#include <stdint.h>

/* A whole number in [min, max]. */
uint64_t arg_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max);

/* A number in [min, max]. */
double arg_number(
	struct argp_state *state, const char *option, const char *text, double min, double max);

/* A length of time in seconds, more than 0: 90, 90s, 1.5m, 8h, 2d. */
double arg_seconds(struct argp_state *state, const char *option, const char *text);

/* The place of a word among words [..., NULL]. */
int arg_word(
	struct argp_state *state, const char *option, const char *text, const char *const *words);

/* An accuracy in per cent, as a share of 1. */
double arg_accuracy(struct argp_state *state, const char *option, const char *text);

/* What names a file: not nothing, as an unset variable of a script gives. Returns text. */
const char *arg_file(struct argp_state *state, const char *option, const char *text);

/* --threads, --backend and --dtype. */
int arg_threads(struct argp_state *state, const char *text);
const struct backend *arg_backend(struct argp_state *state, const char *text);
enum dtype arg_dtype(struct argp_state *state, const char *text);

#endif
