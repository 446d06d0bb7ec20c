#include "cli/predictor_arg.h"

#include "cli/arg.h"
#include "train/cpus.h"

struct predictor_options predictor_options(void)
{
	return (struct predictor_options){
		.backend = backend_find("auto"), .threads = cpus_available(""), .dtype = -1
	};
}

error_t predictor_parse(int key, char *arg, struct argp_state *state, struct predictor_options *o)
{
	switch (key) {
	case PREDICTOR_CHECKPOINT:
		o->checkpoint = arg;
		return 0;
	case 't':
		o->threads = arg_threads(state, arg);
		return 0;
	case PREDICTOR_BACKEND:
		o->backend = arg_backend(state, arg);
		return 0;
	case PREDICTOR_DTYPE:
		o->dtype = (int)arg_dtype(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->checkpoint)
			argp_error(state, "which weights? give --checkpoint FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
