#include "cli/arg.h"

#include "backend/backend.h"
#include "tensor/dtype.h"

void arg_input(void *field, char *arg, struct argp_state *state)
{
	struct shape s = { 3, { 0, 0, 0, 1 } };
	int used = 0;

	if (sscanf(arg, "%5dx%5dx%5d%n", &s.dim[0], &s.dim[1], &s.dim[2], &used) != 3 ||
		arg[used] || s.dim[0] < 1 || s.dim[1] < 1 || s.dim[2] < 1)
		argp_error(state, "--input '%s' is not CHANNELSxHEIGHTxWIDTH, for instance 3x32x32",
			arg);
	*(struct shape *)field = s;
}

void arg_backend(void *field, char *arg, struct argp_state *state)
{
	const struct backend *b = backend_find(arg);

	if (!b)
		argp_error(
			state, "--backend takes auto or one of %s, not '%s'", backend_names(), arg);
	*(const struct backend **)field = b;
}

void arg_isa(void *field, char *arg, struct argp_state *state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (backend_limit_isa(arg, &err) < 0)
		argp_error(state, "--isa: %s", err.text);
}

void arg_dtype(void *field, char *arg, struct argp_state *state)
{
	int d = dtype_find(arg);

	if (d < 0)
		argp_error(state, "--dtype takes f32, tf32 or bf16, not '%s'", arg);
	*(int *)field = d;
}

static void parse_wish_input(void *wish, char *arg, struct argp_state *state)
{
	struct net_wish *w = wish;

	arg_input(&w->input, arg, state);
	w->assumed &= ~(unsigned)NET_ASSUMED_INPUT;
}

static void parse_wish_classes(void *wish, char *arg, struct argp_state *state)
{
	struct net_wish *w = wish;

	w->classes = (int)options_count(state, "classes", arg, 1, 65535);
	w->assumed &= ~(unsigned)NET_ASSUMED_CLASSES;
}

const struct option_row arg_net_rows[] = {
	{ "input", 0, "CxHxW", 0,
		"the images' channels, height and width (the description's, else 1x28x28)", 1,
		OPT_CALL(parse_wish_input) },
	{ "classes", 0, "N", 0, "number of classes (the description's, else 10)", 1,
		OPT_CALL(parse_wish_classes) },
	{ 0 },
};
