#include "cli/arg.h"

#include "backend/backend.h"
#include "tensor/shape.h"
#include "train/cpus.h"

const struct option_row predictor_rows[] = {
	{ "checkpoint", 0, "FILE", 0, "a checkpoint of mltrain train", 1,
		OPT(struct predictor_options, checkpoint) },
	{ "threads", 't', "N", 0, "number of threads (one for each usable CPU)", 2,
		OPT_COUNT(struct predictor_options, threads, 1, ARG_THREADS_MAX) },
	{ "backend", 0, "NAME", 0, "one that mltrain --version lists, or auto (auto)", 2,
		OPT_PARSE(struct predictor_options, backend, arg_backend) },
	{ "dtype", 0, "TYPE", 0, "f32, bf16 or tf32 (the one of training)", 2,
		OPT_PARSE(struct predictor_options, dtype, arg_dtype) },
	{ 0 },
};

struct predictor_options predictor_options(void)
{
	return (struct predictor_options){
		.backend = backend_find("auto"), .threads = cpus_available(""), .dtype = -1
	};
}

void predictor_check(void *args, struct argp_state *state)
{
	struct predictor_options *o = args;

	o->threads = cpus_cut(o->threads, 1);
	if (!o->checkpoint)
		argp_error(state, "which weights? give --checkpoint FILE");
}

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
