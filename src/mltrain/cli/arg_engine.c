/* Separate from arg.c because mltrain-load links no backend. */
#include "cli/arg.h"

#include <stdio.h>

struct shape arg_input(struct argp_state *state, const char *text)
{
	struct shape s = { 3, { 0, 0, 0, 1 } };
	int used = 0;

	if (sscanf(text, "%5dx%5dx%5d%n", &s.dim[0], &s.dim[1], &s.dim[2], &used) != 3 ||
		text[used] || s.dim[0] < 1 || s.dim[1] < 1 || s.dim[2] < 1)
		argp_error(state, "--input '%s' is not CHANNELSxHEIGHTxWIDTH, for instance 3x32x32",
			text);
	return s;
}

int arg_threads(struct argp_state *state, const char *text)
{
	return (int)arg_count(state, "threads", text, 1, 1024);
}

const struct backend *arg_backend(struct argp_state *state, const char *text)
{
	const struct backend *b = backend_find(text);

	if (!b)
		argp_error(state, "--backend '%s' is not one of: auto, %s", text, backend_names());
	return b;
}

void arg_isa(struct argp_state *state, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (backend_limit_isa(text, &err) < 0)
		argp_error(state, "--isa: %s", err.text);
}

enum dtype arg_dtype(struct argp_state *state, const char *text)
{
	int d = dtype_find(text);

	if (d < 0)
		argp_error(state, "--dtype '%s' is not one of: f32, tf32, bf16", text);
	return (enum dtype)d;
}
