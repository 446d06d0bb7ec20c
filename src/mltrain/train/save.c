#include "train/run.h"

#include "base/json.h"

#include <math.h>

/* --- writing ------------------------------------------------------------------------------- */

/* List the names of the network's classes, which may have more than the data set; NULL: no names.
 */
static char **class_names(const struct run *r)
{
	char **names, buf[12];

	if (!r->data->names)
		return NULL;
	names = xcalloc((size_t)r->net->classes, sizeof(*names));
	for (int i = 0; i < r->net->classes; i++)
		names[i] = xstrdup(dataset_class(r->data, i, buf));
	return names;
}

int run_read_engine(struct run *r, struct mlr_error *err)
{
	if (!r->engine) /* it did not open, as a rank was lost meanwhile; what it was to have is
			   here */
		return 0;
	TRY(engine_get(r->engine, ENGINE_PARAMS, r->params, err));
	for (int i = 0; i < optimiser_states(r->o->recipe.optimiser); i++)
		TRY(engine_get(
			r->engine, (enum engine_block)(ENGINE_OPTIMISER + i), r->kept[i], err));
	return r->net->states ? engine_get(r->engine, ENGINE_STATES, r->states, err) : 0;
}

int run_write_engine(struct run *r, struct mlr_error *err)
{
	return backend_set_all(r->engine, r->params, r->kept,
		optimiser_states(r->o->recipe.optimiser), r->net->states ? r->states : NULL, err);
}

int run_save(struct run *r, const char *path, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;
	auto_free char *text =
		mlr_json_print(recipe_json(&o->recipe), JSON_COMPACT | JSON_REAL_PRECISION(17));
	struct checkpoint c = { .net = (struct net *)r->net,
		.params = r->params,
		.optimiser = o->recipe.optimiser,
		.states = r->states,
		.norm = r->data->norm,
		.names = class_names(r),
		.backend = (char *)r->o->backend->name,
		.data = r->data->dir,
		.digest = r->digest,
		.epochs_done = s->epochs_done,
		.batch = o->recipe.batch,
		.ranks = r->ranks,
		.threads = o->threads,
		.dtype = o->dtype,
		.step = s->step,
		.seed = o->seed,
		.best_error = s->best_error,
		.seconds = s->step_seconds,
		.recipe = text };
	double t = mlr_now();
	int e = run_read_engine(r, err);

	memcpy(c.kept, r->kept, sizeof(c.kept));
	if (e == 0)
		e = checkpoint_write(path, &c, err);
	for (int i = 0; c.names && i < r->net->classes; i++)
		free(c.names[i]);
	free(c.names);
	t = mlr_now() - t;
	s->checkpoint_seconds += t;
	r->slowest_save = fmax(r->slowest_save, t);
	if (e < 0)
		return e;
	s->saved = path;
	run_tell(r, TRAIN_SAVED);
	return 0;
}

/* --- going on ------------------------------------------------------------------------------ */

static int contradicts(struct mlr_error *err, const char *what, uint64_t now, uint64_t then)
{
	mlr_fail(err, EINVAL,
		"the checkpoint to go on from has %s %" PRIu64 ", but this run has %" PRIu64, what,
		then, now);
	return mlr_hint(err,
		"leave the option out, or start anew: without --resume and with another --checkpoint");
}

/* Are two layers the same? The rate of dropout may change between two runs. */
static int same_layer(const struct layer *a, const struct layer *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0 && a->from == b->from &&
		a->with == b->with && a->outputs == b->outputs && a->size == b->size &&
		a->stride == b->stride && a->pad == b->pad && a->no_bias == b->no_bias &&
		a->epsilon == b->epsilon && a->momentum == b->momentum && a->decay == b->decay &&
		memcmp(&a->in, &b->in, sizeof(a->in)) == 0 &&
		memcmp(&a->out, &b->out, sizeof(a->out)) == 0;
}

static int check_net(const struct net *now, const struct net *then, struct mlr_error *err)
{
	for (size_t i = 0; i < now->n && i < then->n; i++)
		if (!same_layer(&now->layers[i], &then->layers[i])) {
			mlr_fail(err, EINVAL,
				"the checkpoint to go on from is of another network: its layer %zu '%s' "
				"is not as this run's '%s'",
				i + 1, then->layers[i].name, now->layers[i].name);
			return mlr_hint(
				err, "give the --net that it was trained with, or leave --net out");
		}
	if (now->n == then->n)
		return 0;
	mlr_fail(err, EINVAL,
		"the checkpoint to go on from is of another network: it has %zu layers, this run's %zu",
		then->n, now->n);
	return mlr_hint(err, "give the --net that it was trained with, or leave --net out");
}

static int check_data(const struct run *r, const struct checkpoint *c, struct mlr_error *err)
{
	size_t channels = (size_t)r->net->input.dim[0] * sizeof(float);

	if (c->digest && strcmp(c->digest, r->digest) != 0) {
		mlr_fail(err, EINVAL,
			"the checkpoint to go on from was trained with other data ('%s', digest %s) "
			"than '%s' (digest %s)",
			c->data ? c->data : "?", c->digest, r->data->dir, r->digest);
		return mlr_hint(err, "give the --data that it was trained with");
	}
	if (memcmp(c->norm.mean, r->data->norm.mean, channels) != 0 ||
		memcmp(c->norm.scale, r->data->norm.scale, channels) != 0) {
		mlr_fail(err, EINVAL,
			"the checkpoint to go on from normalises images otherwise than this run");
		return mlr_hint(err, "give the --normalize that it was trained with");
	}
	return 0;
}

/* The number of validation images decides which images are trained with. */
static int check_validation(const struct run *r, const struct checkpoint *c, struct mlr_error *err)
{
	json_auto_t *text = c->recipe ? json_loads(c->recipe, 0, NULL) : NULL;
	struct recipe then = r->o->recipe;
	int e = text ? recipe_parse(text, &then, err) : 0;

	if (e < 0)
		return mlr_wrap(err, "the checkpoint's recipe");
	if (then.validation == r->o->recipe.validation)
		return 0;
	return contradicts(err, "validation images", r->o->recipe.validation, then.validation);
}

static int check_checkpoint(const struct run *r, const struct checkpoint *c, struct mlr_error *err)
{
	uint64_t epoch_steps = r->state.epoch_steps, done = (uint64_t)c->epochs_done;

	if (!c->kept[0] && c->step > 0) {
		mlr_fail(err, EINVAL, "the checkpoint to go on from has no momentum");
		return mlr_hint(err, "start anew with another --checkpoint");
	}
	TRY(check_net(r->net, c->net, err));
	/* Nothing was trained yet: the weights are all that there is to begin with. */
	if (!c->kept[0])
		return check_data(r, c, err);
	if (c->optimiser != r->o->recipe.optimiser) {
		mlr_fail(err, EINVAL, "--optimiser is %s, the checkpoint to go on from has %s",
			optimisers[r->o->recipe.optimiser].name, optimisers[c->optimiser].name);
		return mlr_hint(err, "start anew with another --checkpoint");
	}
	if (c->seed != r->o->seed)
		return contradicts(err, "seed", r->o->seed, c->seed);
	if (c->batch != r->o->recipe.batch)
		return contradicts(err, "batch", (uint64_t)r->o->recipe.batch, (uint64_t)c->batch);
	TRY(check_validation(r, c, err));
	TRY(check_data(r, c, err));
	if (c->step < done * epoch_steps || c->step > (done + 1) * epoch_steps)
		return mlr_fail(err, EINVAL,
			"the checkpoint to go on from stands at step %" PRIu64
			" after %d epochs, which are of %" PRIu64 " steps here",
			c->step, c->epochs_done, epoch_steps);
	return 0;
}

int run_restore(struct run *r, struct mlr_error *err)
{
	const struct checkpoint *c = r->o->resume;
	struct train_state *s = &r->state;

	TRY(check_checkpoint(r, c, err));
	TRY(backend_set_all(r->engine, c->params, c->kept,
		c->kept[0] ? optimiser_states(c->optimiser) : 0, r->net->states ? c->states : NULL,
		err));
	s->step = s->first_step = c->step;
	s->epochs_done = s->epoch = c->epochs_done;
	s->best_error = c->best_error;
	s->step_seconds = c->seconds;
	if (!r->o->resume_elsewhere)
		r->saved_step = c->step;
	return 0;
}

/* --- reading ------------------------------------------------------------------------------- */

#define PIECE ((size_t)64 << 20) /* bytes of one broadcast */

/* The result of rank 0's reading, for the others. */
struct found {
	int64_t size; /* or a negative errno */
	struct mlr_error err;
};

static int share_file(struct dist *d, struct found *found, char **buf, struct mlr_error *err)
{
	const struct exchange *x = &d->exchange;
	size_t size, piece;

	TRY(x->broadcast(x->ctx, found, sizeof(*found), err));
	if (found->size < 0)
		return 0;
	size = (size_t)found->size;
	if (d->rank != 0) {
		*buf = malloc(size ? size : 1);
		if (!*buf)
			return mlr_fail(err, ENOMEM, "%zu bytes of memory", size);
	}
	for (size_t at = 0; at < size; at += piece) {
		piece = size - at < PIECE ? size - at : PIECE;
		TRY(x->broadcast(x->ctx, *buf + at, piece, err));
	}
	return 0;
}

int train_read_checkpoint(
	const char *path, struct dist *d, struct checkpoint *ret, struct mlr_error *err)
{
	struct found found = { 0, MLR_ERROR_INIT };
	auto_free char *buf = NULL;
	size_t len = 0;
	int r = 0;

	if (d->rank == 0 || d->ranks == 1) {
		r = file_read(AT_FDCWD, path, CHECKPOINT_MAX, &buf, &len, &found.err);
		found.size = r < 0 ? r : (int64_t)len;
	}
	if (d->ranks > 1)
		r = share_file(d, &found, &buf, err);
	if (found.size == -ENOENT)
		return 0;
	if (found.size < 0) {
		if (err)
			*err = found.err;
		return mlr_wrap(err, "checkpoint");
	}
	if (r < 0)
		return r;
	r = checkpoint_parse(buf, (size_t)found.size, ret, err);
	return r < 0 ? mlr_wrap(err, "checkpoint '%s'", path) : 1;
}
