/*
 * Reads the values of options. On an invalid value, all end the program as argp_error(3) does and
 * name the option.
 */
#ifndef MLT_ARG_H
#define MLT_ARG_H

#include "backend/backend.h"
#include "tensor/dtype.h"

#include <argp.h>
#include <stdint.h>

/* An integer in [min, max]. */
uint64_t arg_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max);

/* A number in [min, max]. */
double arg_number(
	struct argp_state *state, const char *option, const char *text, double min, double max);

/* A duration above 0, in seconds: 90, 90s, 1.5m, 8h, 2d. */
double arg_seconds(struct argp_state *state, const char *option, const char *text);

/* The index of a word in words, which NULL ends. */
int arg_word(
	struct argp_state *state, const char *option, const char *text, const char *const *words);

/* An accuracy in per cent; returns it in [0, 1]. */
double arg_accuracy(struct argp_state *state, const char *option, const char *text);

/* A file name. Refuses "", which an unset variable of a script gives. Returns text. */
const char *arg_file(struct argp_state *state, const char *option, const char *text);

/* --input: the channels, height and width of images, CxHxW. */
struct shape arg_input(struct argp_state *state, const char *text);

/* --threads, --backend and --dtype. */
int arg_threads(struct argp_state *state, const char *text);
const struct backend *arg_backend(struct argp_state *state, const char *text);
enum dtype arg_dtype(struct argp_state *state, const char *text);

/* --isa takes effect at once. */
void arg_isa(struct argp_state *state, const char *text);

#endif
