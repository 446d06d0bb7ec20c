#include "cli/predictor_arg.h"

#include "cli/arg.h"
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

void predictor_check(struct predictor_options *o, struct argp_state *state)
{
	o->threads = cpus_cut(o->threads, 1);
	if (!o->checkpoint)
		argp_error(state, "which weights? give --checkpoint FILE");
}
