#include "cli/predictor.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/arg.h"
#include "train/cpus.h"

#include <errno.h>
#include <stdio.h>

#define BATCH_MAX 1024 /* a stranger's file must not order memory at will */

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

static int open_engine(const struct predictor_options *o, struct predictor *p, enum dtype dtype,
	struct mlr_error *err)
{
	const struct net *net = p->from.net;
	int batch = o->batch ? o->batch : p->from.batch / p->from.ranks;
	const struct engine_config config = { .batch = batch > BATCH_MAX ? BATCH_MAX
			: batch < 1                                      ? 1
									 : batch,
		.threads = o->threads,
		.dtype = dtype,
		.use = ENGINE_PREDICTS,
		.norm = p->from.norm };
	int r = net_check_batch(net, config.batch, err);

	return r < 0 ? r : o->backend->open(net->layers, net->n, &config, &p->engine, err);
}

int predictor_open(const struct predictor_options *o, struct predictor *ret, struct mlr_error *err)
{
	auto_call(predictor_done) struct predictor p = PREDICTOR_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	int r;

	r = checkpoint_read(o->checkpoint, &p.from, err);
	if (r < 0)
		return r;
	r = open_engine(o, &p, o->dtype < 0 ? p.from.dtype : (enum dtype)o->dtype, &why);
	if (r == -ENOTSUP && o->dtype < 0 && p.from.dtype != DTYPE_F32) {
		mlr_info("'%s' was trained in %s, which backend %s has not here: predicting in f32",
			o->checkpoint, dtype_name(p.from.dtype), o->backend->name);
		r = open_engine(o, &p, DTYPE_F32, &why);
	}
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	r = engine_set(p.engine, ENGINE_PARAMS, p.from.params, err);
	if (r == 0 && p.from.net->states)
		r = engine_set(p.engine, ENGINE_STATES, p.from.states, err);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct predictor)PREDICTOR_INIT;
	return 0;
}

void predictor_done(struct predictor *p)
{
	engine_close(&p->engine);
	checkpoint_done(&p->from);
}

const char *predictor_class(const struct predictor *p, int class, char buf[12])
{
	if (p->from.names)
		return p->from.names[class];
	snprintf(buf, 12, "%d", class);
	return buf;
}
