#include "train/predictor.h"

static int open_engine(const struct predictor_options *o, const struct predictor *p,
	enum dtype dtype, struct engine **ret, struct mlr_error *err)
{
	const struct net *net = p->from.net;
	int batch = o->batch ? o->batch : p->from.batch / p->from.ranks;
	const struct engine_config config = { .batch = batch > PREDICTOR_BATCH_MAX
			? PREDICTOR_BATCH_MAX
			: batch < 1 ? 1
				    : batch,
		.threads = o->threads,
		.dtype = dtype,
		.use = ENGINE_PREDICTS,
		.norm = p->from.norm };

	TRY(net_check_batch(net, config.batch, err));
	return o->backend->open(net->layers, net->n, &config, ret, err);
}

/* Open an engine in the dtype wished for or trained in, or in f32 where the backend has not that.
 */
int predictor_engine(const struct predictor_options *o, const struct predictor *p,
	struct engine **ret, struct mlr_error *err)
{
	auto_call(engine_close) struct engine *e = NULL;
	struct mlr_error why = MLR_ERROR_INIT;
	int r = open_engine(o, p, o->dtype < 0 ? p->from.dtype : (enum dtype)o->dtype, &e, &why);

	if (r == -ENOTSUP && o->dtype < 0 && p->from.dtype != DTYPE_F32) {
		mlr_info("'%s' was trained in %s, which backend %s has not here: predicting in f32",
			o->checkpoint, dtype_name(p->from.dtype), o->backend->name);
		r = open_engine(o, p, DTYPE_F32, &e, &why);
	}
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	TRY(backend_set_all(
		e, p->from.params, NULL, 0, p->from.net->states ? p->from.states : NULL, err));
	*ret = take_ptr(&e);
	return 0;
}

int predictor_open(const struct predictor_options *o, struct predictor *ret, struct mlr_error *err)
{
	auto_call(predictor_done) struct predictor p = { 0 };

	TRY(checkpoint_read(o->checkpoint, &p.from, err));
	TRY(predictor_engine(o, &p, &p.engine, err));
	*ret = take_struct(&p, { 0 });
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

int predictor_is_finite(const float *logits, int n)
{
	for (int i = 0; i < n; i++)
		if (!isfinite(logits[i]))
			return 0;
	return 1;
}

void predictor_probabilities(const float *logits, int n, double *ret)
{
	double most = (double)logits[0], sum = 0;

	for (int i = 1; i < n; i++)
		most = fmax(most, (double)logits[i]);
	for (int i = 0; i < n; i++)
		sum += ret[i] = exp((double)logits[i] - most);
	for (int i = 0; i < n; i++)
		ret[i] /= sum;
}
