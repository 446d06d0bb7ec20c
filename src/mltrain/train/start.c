#include "train/run.h"

#include "base/json.h"
#include "dist/elastic.h"
#include "model/net_file.h"

#include <math.h>

#define DIGEST_DIGITS 16

char *train_digest(const struct dataset *d)
{
	uint32_t sizes[] = { d->channels, d->height, d->width, (uint32_t)d->classes, d->train.count,
		d->test.count };
	size_t image =
		d->train.images && d->train.count ? (size_t)d->channels * d->height * d->width : 0;
	const struct iovec parts[] = { { sizes, sizeof(sizes) }, { d->train.images, image },
		{ d->train.labels, d->train.count * sizeof(*d->train.labels) },
		{ d->test.labels, d->test.count * sizeof(*d->test.labels) } };
	char hex[HASH_HEX_SIZE];

	hash_parts(parts, ARRAY_LEN(parts), hex);
	return xasprintf("%.*s", DIGEST_DIGITS, hex);
}

static int check_ranks(const struct run *r, struct mlr_error *err)
{
	int batch = r->o->recipe.batch, up = (batch + r->ranks - 1) / r->ranks * r->ranks;

	if (run_is_elastic(r) && batch < elastic_most(r->o->dist)) {
		mlr_fail(err, EINVAL, "a batch of %d can't be divided among up to %d ranks", batch,
			elastic_most(r->o->dist));
		return mlr_hint(
			err, "--batch is that of all ranks together; --max-ranks says less");
	}
	if (batch % r->ranks == 0)
		return 0;
	mlr_fail(err, EINVAL, "a batch of %d can't be divided among %d ranks", batch, r->ranks);
	return mlr_hint(err, "--batch is that of all ranks together: try %d", up);
}

static int check(const struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	const struct net *net = r->net;
	const struct dataset *d = r->data;
	uint32_t validation = o->recipe.validation;
	char input[SHAPE_TEXT_MAX];

	if (net->input.dim[0] != (int)d->channels || net->input.dim[1] != (int)d->height ||
		net->input.dim[2] != (int)d->width)
		return mlr_fail(err, EINVAL,
			"network '%s' reads images of %s but '%s' has %ux%ux%u", net->name,
			shape_text(&net->input, input), d->dir, d->channels, d->height, d->width);
	if (net->classes < d->classes)
		return mlr_fail(err, EINVAL,
			"network '%s' tells %d classes apart but '%s' has a label %d", net->name,
			net->classes, d->dir, d->classes - 1);
	if (d->train.count <= validation ||
		d->train.count - validation < (uint32_t)o->recipe.batch) {
		mlr_fail(err, EINVAL,
			"'%s' has %u training images: too few for %u of validation and one batch of %d",
			d->dir, d->train.count, validation, o->recipe.batch);
		return mlr_hint(err, "--validation and --batch change these");
	}
	if (!augment_is_none(&o->recipe.augment) &&
		(d->height > AUGMENT_SIDE_MAX || d->width > AUGMENT_SIDE_MAX)) {
		mlr_fail(err, EINVAL,
			"'%s': images of %ux%u are too large to be altered; %d pixels in a row or "
			"column are the most",
			d->dir, d->height, d->width, AUGMENT_SIDE_MAX);
		return mlr_hint(err, "--augment none leaves them as they are");
	}
	if (o->recipe.optimiser != OPTIMISER_SGD && o->recipe.momentum >= 1)
		return mlr_fail(err, EINVAL,
			"momentum %g: %s, whose beta1 it is, needs one below 1", o->recipe.momentum,
			optimisers[o->recipe.optimiser].name);
	return net_check_batch(net, r->rows, err);
}

static int probe(const struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;

	if (o->checkpoint || o->best)
		TRY(checkpoint_check_size(r->net, o->recipe.optimiser, err));
	if (r->rank == 0 && o->checkpoint)
		TRY(checkpoint_probe(o->checkpoint, err));
	return r->rank == 0 && o->best ? checkpoint_probe(o->best, err) : 0;
}

void run_take_share(struct run *r)
{
	int batch = r->o->recipe.batch;

	r->first_row = group_first_row(batch, r->rank, r->ranks);
	r->rows = group_first_row(batch, r->rank + 1, r->ranks) - r->first_row;
}

int run_open_engine(struct run *r, struct mlr_error *err)
{
	const struct engine_config config = { .batch = r->rows,
		.threads = r->o->threads,
		.dtype = r->o->dtype,
		.use = ENGINE_TRAINS,
		.deterministic = r->o->deterministic,
		.optimiser = r->o->recipe.optimiser,
		.smoothing = (float)r->o->recipe.smoothing,
		.norm = r->data->norm,
		.exchange = r->ranks > 1 ? r->exchange : NULL,
		.first_row = r->first_row,
		.all_rows = r->o->recipe.batch };
	const struct backend *b = r->o->backend;

	r->state.engine = NULL;
	TRY(b->open(r->net->layers, r->net->n, &config, &r->engine, err));
	r->state.engine = r->engine;
	if (r->data->train.images)
		TRY(engine_hold(r->engine, r->data->train.images, r->data->train.count, err));
	if (r->data->test.images)
		TRY(engine_hold(r->engine, r->data->test.images, r->data->test.count, err));
	if (!r->exchange || run_is_elastic(r))
		return 0;
	return dist_agree(r->o->dist, "the layout of gradients", &r->engine->layout,
		sizeof(r->engine->layout), err);
}

int run_open_loader(struct run *r, struct mlr_error *err)
{
	const struct loader_options loading = {
		.rows = r->rows, .ahead = 2 * r->at_once, .threads = r->o->threads
	};

	return loader_open(&r->data->train, r->data, &loading, &r->loader, err);
}

static void init_state(struct run *r)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;

	s->net = r->net;
	s->ranks = r->ranks;
	s->validation_images = o->recipe.validation;
	s->train_images = r->data->train.count - o->recipe.validation;
	s->test_images = r->data->test.count;
	s->epoch_steps = s->train_images / (uint32_t)o->recipe.batch;
	r->schedule_steps = s->steps = s->epoch_steps * (uint64_t)o->recipe.epochs;
	if (o->steps && o->steps < s->steps)
		s->steps = o->steps;
	s->batch_error = s->validation_error = s->best_error = s->test_error = -1;
	s->loss = s->cross_entropy = s->validation_cross_entropy = NAN;
	s->test_wrong = -1;
	s->lr = o->recipe.lr;
	r->saved_step = UINT64_MAX;
}

static int allocate(struct run *r, struct mlr_error *err)
{
	size_t params = r->net->params, images = r->state.train_images;
	size_t states = r->net->states ? r->net->states : 1;
	int kept = optimiser_states(r->o->recipe.optimiser), has_all = 0;

	r->at_once = r->engine->steps_at_once > 0 ? r->engine->steps_at_once : 1;
	if (run_is_elastic(r) || (r->exchange && !r->data->train.images))
		r->at_once = 1; /* a group may change after every step; ranks decode at different
				   speeds but must take the same number of batches */
	r->batches = xcalloc((size_t)r->at_once, sizeof(*r->batches));
	r->steps = xcalloc((size_t)r->at_once, sizeof(*r->steps));
	r->results = xcalloc((size_t)r->at_once, sizeof(*r->results));
	r->sums = xcalloc(2 * (size_t)r->at_once + RUN_SUMS, sizeof(*r->sums));
	r->params = malloc(params * sizeof(float));
	r->states = malloc(states * sizeof(float));
	r->states_before = malloc(states * sizeof(float));
	r->order = calloc(images, sizeof(*r->order));
	if (!augment_is_none(&r->o->recipe.augment)) {
		r->augment = calloc(images, sizeof(*r->augment));
		if (!r->augment)
			return mlr_fail(err, ENOMEM, "%zu bytes of memory for alterations",
				images * sizeof(*r->augment));
	}
	for (int i = 0; i < kept && (r->kept[i] = calloc(params, sizeof(float))); i++)
		has_all = i + 1 == kept;
	if (!r->params || !has_all || !r->states || !r->states_before || !r->order)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for parameters",
			((size_t)(1 + kept) * params + 2 * states) * sizeof(float) +
				images * sizeof(*r->order));
	return 0;
}

static int fill_engine(struct run *r, struct mlr_error *err)
{
	if (r->o->resume && !elastic_is_newcomer(r->o->dist))
		return run_restore(r, err);
	net_init_params(r->net, r->o->seed, r->params);
	net_init_states(r->net, r->states);
	return backend_set_all(
		r->engine, r->params, NULL, 0, r->net->states ? r->states : NULL, err);
}

/* Everything that must be equal on all ranks: it decides what they compute and when they wait for
 * one another. */
static int agree(struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	json_auto_t *options = NULL;
	auto_free char *net = net_text(r->net), *text = NULL;

	if (!r->exchange)
		return 0;
	options = json_pack("{s:s, s:s, s:b, s:f, s:b, s:I, s:I, s:I, s:I, s:s}", "backend",
		o->backend->name, "dtype", dtype_name(o->dtype), "deterministic", o->deterministic,
		"target-accuracy", o->target_accuracy, "best", o->best != NULL, "checkpoint-every",
		(json_int_t)o->save_steps, "validate-every", (json_int_t)o->validate_every, "steps",
		(json_int_t)o->steps, "seed", (json_int_t)o->seed, "net", net);
	json_object_update_new(options, recipe_json(&o->recipe));
	if (run_is_elastic(r)) {
		elastic_say_options(o->dist, options, r->digest);
		return 0;
	}
	json_object_set_new(
		options, "resume", json_integer(o->resume ? (json_int_t)o->resume->step : 0));
	text = json_dumps(options, JSON_COMPACT);
	TRY(dist_agree(o->dist, "options", text, strlen(text), err));
	return dist_agree(o->dist, "the data set", r->digest, strlen(r->digest), err);
}

/* Keep what a file holds as FILE~ (file_keep()). Sets *ret if there was something to keep. */
static int keep(const char *path, const char **ret, struct mlr_error *err)
{
	int e = file_keep(path, CHECKPOINT_MAX, err);

	if (e < 0)
		return mlr_hint(err,
			"move '%s' away, or go on from it by --resume: a run that starts anew "
			"would replace it",
			path);
	*ret = e ? path : NULL;
	return 0;
}

/* A user who forgets --resume must not lose the checkpoints that are there. */
static int keep_others(struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;

	if (r->rank != 0)
		return 0;
	if (o->checkpoint && (!o->resume || o->resume_elsewhere))
		TRY(keep(o->checkpoint, &r->state.kept_checkpoint, err));
	return o->best && !o->resume ? keep(o->best, &r->state.kept_best, err) : 0;
}

int run_start(struct run *r, struct mlr_error *err)
{
	struct dist *d = r->o->dist;

	r->rank = d && d->ranks > 1 ? d->rank : 0;
	r->ranks = d ? d->ranks : 1;
	r->exchange = r->ranks > 1 || run_is_elastic(r) ? &d->exchange : NULL;
	run_take_share(r);
	if (elastic_is_newcomer(d))
		r->rank = d->rank; /* it writes and tells nothing */
	r->digest = train_digest(r->data);
	TRY(agree(r, err));
	TRY(check_ranks(r, err));
	TRY(check(r, err));
	TRY(probe(r, err));
	TRY(run_open_engine(r, err));
	init_state(r);
	TRY(allocate(r, err));
	TRY(fill_engine(r, err));
	TRY(run_open_loader(r, err));
	r->saved_at = mlr_now();
	TRY(keep_others(r, err));
	return run_is_elastic(r) ? run_regroup(r, err) : 0;
}

void run_done(struct run *r)
{
	loader_close(&r->loader);
	engine_close(&r->engine);
	free(r->digest);
	free(r->params);
	for (int i = 0; i < OPTIMISER_STATES_MAX; i++)
		free(r->kept[i]);
	free(r->states);
	free(r->states_before);
	free(r->order);
	free(r->augment);
	free(r->batches);
	free(r->steps);
	free(r->results);
	free(r->sums);
}

void run_tell(struct run *r, enum train_moment moment)
{
	r->state.moment = moment;
	if (r->tell && r->rank == 0)
		r->tell(r->ctx, &r->state);
}
