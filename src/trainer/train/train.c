#include "trainer/train/train.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/model/checkpoint.h"
#include "trainer/tensor/rng.h"
#include "trainer/train/evaluate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct run {
	const struct train_options *o;
	const struct net *net;
	const struct dataset *data;
	train_tell tell;
	void *ctx;
	struct train_state state;
	struct engine *engine;
	float *params;   /* [net->params], for checkpoints */
	uint32_t *order; /* [train_images], places in the data set */
	uint8_t *labels; /* [batch] */
	size_t pixels;
};

static void run_done(struct run *r)
{
	engine_close(&r->engine);
	free(r->params);
	free(r->order);
	free(r->labels);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell(struct run *r, enum train_moment moment)
{
	r->state.moment = moment;
	if (r->tell)
		r->tell(r->ctx, &r->state);
}

static int stopped(const struct run *r)
{
	return r->o->stop && *r->o->stop;
}

static int check(const struct train_options *o, const struct net *net, const struct dataset *d,
	struct mlr_error *err)
{
	if (net->input.dim[0] != 1 || net->input.dim[1] != (int)d->height ||
		net->input.dim[2] != (int)d->width)
		return mlr_fail(err, EINVAL,
			"network '%s' reads images of %dx%d but '%s' has %ux%u", net->name,
			net->input.dim[1], net->input.dim[2], d->dir, d->height, d->width);
	if (net->classes < d->classes)
		return mlr_fail(err, EINVAL,
			"network '%s' tells %d classes apart but '%s' has a label %d", net->name,
			net->classes, d->dir, d->classes - 1);
	if (d->train.count <= o->validation ||
		d->train.count - o->validation < (uint32_t)o->batch) {
		mlr_fail(err, EINVAL,
			"'%s' has %u training images: too few for %u of validation and one batch of %d",
			d->dir, d->train.count, o->validation, o->batch);
		return mlr_hint(err, "--validation and --batch change these");
	}
	return net_check_batch(net, o->batch, err);
}

static int start(struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	struct engine_config config = { o->batch, o->threads };
	struct train_state *s = &r->state;
	int e;

	e = check(o, r->net, r->data, err);
	if (e < 0)
		return e;
	if (o->checkpoint && (e = checkpoint_probe(o->checkpoint, err)) < 0)
		return e;
	e = o->backend->open(r->net->layers, r->net->n, &config, &r->engine, err);
	if (e < 0)
		return e;

	s->net = r->net;
	s->engine = r->engine;
	s->validation_images = o->validation;
	s->train_images = r->data->train.count - o->validation;
	s->test_images = r->data->test.count;
	s->epoch_steps = s->train_images / (uint32_t)o->batch;
	s->steps = s->epoch_steps * (uint64_t)o->epochs;
	if (o->steps && o->steps < s->steps)
		s->steps = o->steps;
	s->batch_error = s->validation_error = s->test_error = -1;
	s->loss = s->cross_entropy = NAN;
	s->test_wrong = -1;
	s->lr = o->lr;
	r->pixels = shape_count(&r->net->input);

	r->labels = xcalloc((size_t)o->batch, 1);
	r->order = calloc(s->train_images, sizeof(*r->order));
	r->params = malloc(r->net->params * sizeof(float));
	if (!r->order || !r->params)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for parameters",
			r->net->params * sizeof(float));
	net_init_params(r->net, o->seed, r->params);
	r->engine->backend->set(r->engine, ENGINE_PARAMS, r->params);
	return 0;
}

static int save(struct run *r, struct mlr_error *err)
{
	struct checkpoint_info info = { r->state.epochs_done, r->o->batch, r->state.step,
		r->o->seed, r->o->backend->name, r->data->dir };
	int e;

	if (!r->o->checkpoint)
		return 0;
	r->engine->backend->get(r->engine, ENGINE_PARAMS, r->params);
	e = checkpoint_write(r->o->checkpoint, r->net, r->params, &info, err);
	if (e < 0)
		return e;
	tell(r, TRAIN_SAVED);
	return 0;
}

static int one_step(struct run *r, uint64_t in_epoch, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;
	const uint32_t *order = r->order + in_epoch * (uint64_t)o->batch;
	struct step step = { (float)s->lr, (float)o->momentum, (float)o->l2, o->seed, s->step };
	struct step_result got;
	double t = now();

	evaluate_fill(r->engine, r->data->train.images, order, o->batch, r->pixels);
	for (int i = 0; i < o->batch; i++)
		r->labels[i] = r->data->train.labels[order[i]];
	r->engine->backend->step(r->engine, r->labels, &step, &got);
	s->step_seconds += now() - t;

	s->step++;
	s->cross_entropy = got.cross_entropy;
	s->loss = got.cross_entropy + got.penalty;
	s->batch_error = (double)got.wrong / o->batch;
	if (!isfinite(s->loss) || !isfinite(got.norm2)) {
		mlr_fail(err, EDOM, "training diverged: the %s at step %" PRIu64 " (epoch %d)",
			isfinite(s->loss)        ? "weights are no numbers"
				: isnan(s->loss) ? "loss is nan"
						 : "loss is infinite",
			s->step, s->epoch);
		return mlr_hint(err, "try a smaller --lr than %g", o->lr);
	}
	tell(r, TRAIN_STEPPED);
	return 0;
}

static void shuffle(struct run *r)
{
	struct rng rng;

	rng_init(&rng, r->o->seed, RNG_SHUFFLE, (uint64_t)r->state.epoch);
	rng_shuffle(&rng, r->order, r->state.train_images);
	for (uint32_t i = 0; i < r->state.train_images; i++)
		r->order[i] += r->o->validation;
}

/* Returns the fraction that is wrong, or a negative number when stopped. */
static double error_of(struct run *r, const struct image_set *set, uint32_t count, int64_t *wrong)
{
	double t = now();

	*wrong = evaluate(
		r->engine, r->net->classes, set->images, set->labels, count, r->pixels, r->o->stop);
	r->state.evaluate_seconds += now() - t;
	return *wrong < 0 || !count ? -1 : (double)*wrong / count;
}

static int one_epoch(struct run *r, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	int64_t wrong;
	int e;

	s->lr = r->o->lr * pow(r->o->lr_decay, s->epoch - 1);
	shuffle(r);
	for (uint64_t i = 0; i < s->epoch_steps && s->step < s->steps; i++) {
		e = one_step(r, i, err);
		if (e < 0 || stopped(r))
			return e;
	}
	if (s->step == s->epoch_steps * (uint64_t)s->epoch)
		s->epochs_done = s->epoch;
	e = save(r, err);
	if (e < 0)
		return e;
	s->validation_error = error_of(r, &r->data->train, s->validation_images, &wrong);
	if (!stopped(r))
		tell(r, TRAIN_EPOCH_ENDED);
	return 0;
}

static int interrupted(struct run *r, struct mlr_error *err)
{
	int e = save(r, err);

	if (e < 0)
		return e;
	tell(r, TRAIN_INTERRUPTED);
	return 0;
}

static int loop(struct run *r, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	int e;

	tell(r, TRAIN_STARTED);
	while (s->step < s->steps && !stopped(r)) {
		s->epoch++;
		e = one_epoch(r, err);
		if (e < 0)
			return e;
	}
	if (!stopped(r))
		s->test_error = error_of(r, &r->data->test, s->test_images, &s->test_wrong);
	if (stopped(r))
		return interrupted(r, err);
	tell(r, TRAIN_TESTED);
	return 0;
}

int train_run(const struct train_options *o, const struct net *net, const struct dataset *data,
	train_tell callback, void *ctx, struct train_state *ret, struct mlr_error *err)
{
	auto_call(run_done) struct run r = { o, net, data, callback, ctx };
	int e;

	e = start(&r, err);
	if (e < 0)
		return e;
	e = loop(&r, err);
	if (e < 0)
		return e;
	*ret = r.state;
	ret->engine = NULL; /* it ends here */
	return 0;
}
