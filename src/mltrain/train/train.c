#include "train/train.h"

#include "dist/elastic.h"
#include "tensor/rng.h"
#include "train/run.h"

/* --- what the ranks agree on --------------------------------------------------------------- */

/* Reasons to end or interrupt training, as one rank sees them, or their sum over all. */
enum wish {
	WISH_TERM,
	WISH_HUP,
	WISH_INT,
	WISH_USR1,
	WISH_LATE,
	WISH_SAVE,
	WISH_LEAVE,  /* elastic ranks: instead of a signal's */
	WISH_CHANGE, /* elastic ranks: someone wants to join */
	WISHES
};

static const int signal_of[] = {
	[WISH_TERM] = SIGTERM, [WISH_HUP] = SIGHUP, [WISH_INT] = SIGINT, [WISH_USR1] = SIGUSR1
};

/* Would work of this many seconds, and a checkpoint after it, end after the deadline? Only rank 0's
 * clock decides. */
static int is_late(const struct run *r, double seconds)
{
	const struct train_options *o = r->o;

	return r->rank == 0 && o->max_seconds > 0 &&
		mlr_now() + seconds + 1.5 * r->slowest_save > o->started + o->max_seconds;
}

static int is_save_due(const struct run *r)
{
	const struct train_options *o = r->o;

	return (o->save && *o->save) ||
		(r->rank == 0 && o->save_seconds > 0 && mlr_now() - r->saved_at >= o->save_seconds);
}

/* next: how long the next work takes at most, in seconds. */
static void wish(struct run *r, double next, double wishes[WISHES])
{
	int sig = r->o->stop ? *r->o->stop : 0, is_elastic = run_is_elastic(r);

	for (int i = WISH_TERM; i < WISH_LATE; i++)
		wishes[i] = !is_elastic && sig == signal_of[i];
	wishes[WISH_LATE] = is_late(r, next);
	wishes[WISH_SAVE] = is_save_due(r);
	r->leaves = is_elastic && sig;
	wishes[WISH_LEAVE] = r->leaves;
	wishes[WISH_CHANGE] = is_elastic && elastic_wants_change(r->o->dist);
}

/* The last ranks do not leave: training ends. */
static void obey_elastic(struct run *r, const double wishes[WISHES])
{
	if (wishes[WISH_LEAVE] >= r->ranks) {
		r->halted = 1;
		r->state.signal = *r->o->stop;
	} else if (wishes[WISH_LEAVE] > 0 || wishes[WISH_CHANGE] > 0) {
		r->change = 1;
	}
}

static void obey(struct run *r, const double wishes[WISHES])
{
	if (wishes[WISH_SAVE] > 0)
		r->save_now = 1;
	for (int i = WISH_LATE; i >= WISH_TERM; i--)
		if (wishes[i] > 0) {
			r->halted = 1;
			r->state.signal = i < WISH_LATE ? signal_of[i] : 0;
		}
	if (run_is_elastic(r))
		obey_elastic(r, wishes);
}

/* Let the ranks agree on the wishes now, before long work. */
static int ask(struct run *r, double next, struct mlr_error *err)
{
	double wishes[WISHES];

	wish(r, next, wishes);
	if (r->exchange)
		TRY(r->exchange->sum(r->exchange->ctx, wishes, WISHES, err));
	obey(r, wishes);
	return 0;
}

/* Make a number of an image and its place in the epoch's order. */
static uint64_t mix(uint64_t place, uint32_t index)
{
	return rng_mix(place * 0x9e3779b97f4a7c15 + index + 1);
}

/* Sum mix() over rows of the next n steps' batches: this rank's, as the loader gave them. */
static uint64_t digest_own(const struct run *r, int n)
{
	const struct train_state *s = &r->state;
	uint64_t done = s->step - (uint64_t)s->epochs_done * s->epoch_steps, sum = 0;

	for (int i = 0; i < n; i++) {
		uint64_t at = (done + (uint64_t)i) * (uint64_t)r->o->recipe.batch +
			(uint64_t)r->first_row;
		const struct batch *b = &r->batches[i];

		for (int k = 0; k < b->rows; k++, at++)
			sum += mix(at, b->index ? b->index[k] : r->order[at]);
	}
	return sum;
}

/* Sum it over the rows of all ranks. */
static uint64_t digest_all(const struct run *r)
{
	const struct train_state *s = &r->state;
	uint64_t batch = (uint64_t)r->o->recipe.batch, sum = 0;
	uint64_t at = (s->step - (uint64_t)s->epochs_done * s->epoch_steps) * batch;

	for (uint64_t end = at + batch; at < end; at++)
		sum += mix(at, r->order[at]);
	return sum;
}

/*
 * Sum the results of a call, and the wishes, over all ranks.
 *
 * When an elastic rank is lost just here, the step is made all the same, from the gradients of all
 * rows: only its loss is known for this rank's rows alone.
 */
static int reduce(struct run *r, int n, struct mlr_error *err)
{
	double *x = r->sums, *wishes = x + 2 * n, *digest = wishes + WISHES;
	uint64_t own = digest_own(r, n);
	int e = 0;

	for (int i = 0; i < n; i++) {
		x[2 * i] = r->results[i].cross_entropy * ((double)r->rows / r->o->recipe.batch);
		x[2 * i + 1] = r->results[i].wrong;
	}
	wish(r, r->slowest_call, wishes);
	/* Halves of 32 bits: their sums are exact. */
	digest[0] = (double)(uint32_t)own;
	digest[1] = (double)(own >> 32);
	if (r->exchange)
		e = r->exchange->sum(r->exchange->ctx, x, 2 * (size_t)n + WISHES + 2, err);
	r->state.epoch_samples += (uint64_t)n * (uint64_t)r->o->recipe.batch;
	if (e < 0 && elastic_is_broken(r->o->dist)) {
		r->state.epoch_indices += digest_all(r);
		r->results[0].wrong =
			(int)((double)r->results[0].wrong * r->o->recipe.batch / r->rows);
		r->change = 1;
		return 0;
	}
	if (e < 0)
		return e;
	r->state.epoch_indices += (uint64_t)digest[0] + ((uint64_t)digest[1] << 32);
	for (int i = 0; i < n; i++) {
		r->results[i].cross_entropy = x[2 * i];
		r->results[i].wrong = (int)x[2 * i + 1];
	}
	obey(r, wishes);
	return 0;
}

/* --- saving -------------------------------------------------------------------------------- */

/* A failure is only a warning: the checkpoint before it stays. */
static void try_save(struct run *r)
{
	struct mlr_error err = MLR_ERROR_INIT;

	r->save_now = 0;
	if (r->o->save)
		*r->o->save = 0;
	r->saved_at = mlr_now();
	if (!r->o->checkpoint || r->rank != 0)
		return;
	if (run_save(r, r->o->checkpoint, &err) == 0)
		r->saved_step = r->state.step;
	else
		mlr_log_failure(MLR_WARNING, &err,
			r->saved_step == UINT64_MAX
				? "; training goes on, and there is no checkpoint yet"
				: "; training goes on, and the one before stays");
}

/* The last checkpoint must be written. */
static int save_last(struct run *r, struct mlr_error *err)
{
	if (!r->o->checkpoint || r->rank != 0 || r->saved_step == r->state.step ||
		run_save(r, r->o->checkpoint, err) == 0)
		return 0;
	return mlr_wrap(err, "at the end, step %" PRIu64, r->state.step);
}

static void save_best(struct run *r)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (r->o->best && r->rank == 0 && run_save(r, r->o->best, &err) < 0)
		mlr_log_failure(MLR_WARNING, &err, "; training goes on");
}

/* --- steps --------------------------------------------------------------------------------- */

static int check_result(const struct run *r, const struct step_result *got, struct mlr_error *err)
{
	const struct train_state *s = &r->state;

	if (isfinite(s->loss) && isfinite(got->norm2))
		return 0;
	mlr_fail(err, EDOM, "training diverged: the %s at step %" PRIu64 " (epoch %d)",
		isfinite(s->loss)        ? "weights are no numbers"
			: isnan(s->loss) ? "loss is nan"
					 : "loss is infinite",
		s->step, s->epoch);
	return mlr_hint(err, "try a smaller --lr than %g", r->o->recipe.lr);
}

/* Report one step's result, or fail if training has diverged. */
static int tell_step(struct run *r, int i, struct mlr_error *err)
{
	const struct step_result *got = &r->results[i];
	struct train_state *s = &r->state;

	s->lr = recipe_lr(&r->o->recipe, s->step, s->epoch_steps, r->schedule_steps);
	s->step++;
	s->cross_entropy = got->cross_entropy;
	s->loss = got->cross_entropy + got->penalty;
	s->batch_error = (double)got->wrong / r->o->recipe.batch;
	TRY(check_result(r, got, err));
	run_tell(r, TRAIN_STEPPED);
	return 0;
}

/* Count the steps up to one that something else follows, at most `most`. */
static int steps_until(const struct run *r, uint64_t end, uint64_t most)
{
	const struct train_options *o = r->o;
	uint64_t step = r->state.step, n = end - step;

	if (o->save_steps && o->save_steps - step % o->save_steps < n)
		n = o->save_steps - step % o->save_steps;
	if (o->validate_every) {
		uint64_t every = o->validate_every;
		uint64_t left = (1 % every + every - step % every) % every;

		left = left ? left : every;
		n = left < n ? left : n;
	}
	return (int)(n < most ? n : most);
}

/* A step that fails because an elastic rank is lost leaves everything as it was. */
static int step_engine(struct run *r, int n, struct mlr_error *err)
{
	int keeps = run_is_elastic(r) && r->net->states, e = 0;

	if (keeps)
		e = engine_get(r->engine, ENGINE_STATES, r->states_before, err);
	if (e == 0)
		e = engine_step(r->engine, r->batches, r->steps, n, r->results, err);
	if (e < 0 && keeps && elastic_is_broken(r->o->dist))
		engine_set(r->engine, ENGINE_STATES, r->states_before, NULL);
	return e;
}

/* Compute some steps, at most up to step `end`. */
static int some_steps(struct run *r, uint64_t end, struct mlr_error *err)
{
	const struct recipe *recipe = &r->o->recipe;
	struct train_state *s = &r->state;
	int n = steps_until(r, end, (uint64_t)r->at_once);
	double t = mlr_now();

	n = loader_take(r->loader, n, r->batches, err);
	if (n < 0)
		return n;
	if (n == 0)
		return mlr_fail(err, EIO, "no batch for step %" PRIu64, s->step + 1);
	for (int i = 0; i < n; i++) {
		uint64_t number = s->step + (uint64_t)i;

		r->steps[i] = (struct step){ (float)recipe_lr(recipe, number, s->epoch_steps,
						     r->schedule_steps),
			(float)recipe->momentum, (float)recipe->l2, r->o->seed, number };
	}
	TRY(step_engine(r, n, err));
	t = mlr_now() - t;
	s->step_seconds += t;
	r->slowest_call = fmax(r->slowest_call, t);
	TRY(reduce(r, n, err));
	for (int i = 0; i < n; i++)
		TRY(tell_step(r, i, err));
	return r->exchange ? 0 : ask(r, r->slowest_call, err); /* alone: no agreement is needed */
}

/* Shuffle, draw the augmentation, and start the loader where training stands. */
static void begin_epoch(struct run *r)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;
	uint64_t done = s->step - (uint64_t)s->epochs_done * s->epoch_steps;
	size_t batch = (size_t)o->recipe.batch;
	size_t at = done * batch + (size_t)r->first_row;
	struct rng rng;

	s->epoch = s->epochs_done + 1;
	if (done == 0)
		s->epoch_samples = s->epoch_indices = 0;
	rng_init(&rng, o->seed, RNG_SHUFFLE, (uint64_t)s->epoch);
	rng_shuffle(&rng, r->order, s->train_images);
	for (uint32_t i = 0; i < s->train_images; i++)
		r->order[i] += s->validation_images;
	if (r->augment)
		augment_draw(&o->recipe.augment, o->seed, (uint64_t)s->epoch, 0,
			(int)s->train_images, (int)r->data->height, (int)r->data->width,
			r->augment);
	if (done < s->epoch_steps)
		loader_start(r->loader, r->order + at, r->augment ? r->augment + at : NULL, batch,
			s->epoch_steps - done);
}

/* --- evaluation ---------------------------------------------------------------------------- */

/* Ranks that normalise their own rows have different running statistics. All test with those of
 * rank 0, which the checkpoint has. */
static int take_states(struct run *r, struct mlr_error *err)
{
	size_t size = r->net->states * sizeof(float);
	int differ = 0;

	for (size_t i = 0; i < r->net->n; i++)
		differ |= r->net->layers[i].own_rows;
	if (!differ || r->ranks == 1)
		return 0;
	TRY(engine_get(r->engine, ENGINE_STATES, r->states, err));
	TRY(r->exchange->broadcast(r->exchange->ctx, r->states, size, err));
	return engine_set(r->engine, ENGINE_STATES, r->states, err);
}

/* Test the first images of a set. A stop ends it early and is kept in halted. */
static int test(struct run *r, const struct image_set *set, uint32_t count, int details,
	struct evaluation *ret, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	const struct evaluation_of what = { .engine = r->engine,
		.data = r->data,
		.set = set,
		.count = count,
		.classes = r->net->classes,
		.threads = r->o->threads,
		.details = details,
		.dist = r->exchange ? r->o->dist : NULL,
		.stop = run_is_elastic(r) ? NULL : r->o->stop };
	uint64_t steps = s->step - s->first_step;
	double step = steps ? s->step_seconds / (double)s->step : 0, t;
	int e;

	/* An image takes less time to predict than to train with. */
	e = ask(r, step * count / r->o->recipe.batch, err);
	if (e < 0 || r->halted)
		return e;
	t = mlr_now();
	e = take_states(r, err);
	if (e == 0)
		e = evaluate(&what, ret, err);
	s->evaluate_seconds += mlr_now() - t;
	if (e != -EINTR)
		return e;
	e = ask(r, 0, err);
	r->halted = 1;
	return e;
}

/* Set the share that is wrong, unless there are no images or training must stop. */
static int error_of(struct run *r, const struct image_set *set, uint32_t count, double *error,
	double *cross_entropy, struct mlr_error *err)
{
	auto_call(evaluate_done) struct evaluation got = { 0 };

	if (!count)
		return 0;
	TRY(test(r, set, count, 0, &got, err));
	if (r->halted)
		return 0;
	*error = (double)got.wrong / count;
	*cross_entropy = got.cross_entropy;
	return 0;
}

static int validate(struct run *r, struct mlr_error *err)
{
	struct train_state *s = &r->state;

	return error_of(r, &r->data->train, s->validation_images, &s->validation_error,
		&s->validation_cross_entropy, err);
}

/* Without validation images the test images decide when the target is reached. */
static int measure(struct run *r, double *error, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	double cross_entropy;
	int e = validate(r, err);

	*error = s->validation_error;
	if (e < 0 || r->halted || s->validation_images ||
		(r->o->target_accuracy <= 0 && !r->o->best))
		return e;
	e = error_of(r, &r->data->test, s->test_images, &s->test_error, &cross_entropy, err);
	*error = s->test_error;
	return e;
}

/* --- the loop ------------------------------------------------------------------------------ */

/* Do what may come between two calls of engine_step(). */
static int between_steps(struct run *r, struct mlr_error *err)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;

	if (!r->halted && o->validate_every &&
		s->step % o->validate_every == 1 % o->validate_every) {
		TRY(validate(r, err));
		if (!r->halted)
			run_tell(r, TRAIN_VALIDATED);
	}
	if (!r->halted && (r->save_now || (o->save_steps && s->step % o->save_steps == 0)))
		try_save(r);
	return 0;
}

/* Read the weights for the callback, on the rank that calls it. */
static int show_weights(struct run *r, struct mlr_error *err)
{
	if (!r->o->tell_weights || r->rank != 0)
		return 0;
	r->state.params = r->params;
	return engine_get(r->engine, ENGINE_PARAMS, r->params, err);
}

static int end_epoch(struct run *r, int whole, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	double error = -1;
	int e = measure(r, &error, err), better;

	if (e < 0 || r->halted)
		return e;
	s->epochs_done += whole;
	better = error >= 0 && (s->best_error < 0 || error < s->best_error);
	if (better)
		s->best_error = error;
	TRY(show_weights(r, err));
	run_tell(r, TRAIN_EPOCH_ENDED);
	try_save(r);
	if (better)
		save_best(r);
	s->reached = error >= 0 && r->o->target_accuracy > 0 && 1 - error >= r->o->target_accuracy;
	return 0;
}

static int one_epoch(struct run *r, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	uint64_t whole, end;

	begin_epoch(r);
	whole = (uint64_t)s->epoch * s->epoch_steps;
	end = whole < s->steps ? whole : s->steps;
	while (s->step < end && !r->halted && !r->change) {
		TRY(some_steps(r, end, err));
		TRY(between_steps(r, err));
	}
	return r->halted || s->step < end ? 0 : end_epoch(r, s->step == whole, err);
}

/* Has the epoch anything left to train or to validate? */
static int is_over(const struct run *r)
{
	const struct train_state *s = &r->state;

	return r->halted || r->gone || s->reached || s->epochs_done >= r->o->recipe.epochs ||
		(s->step >= s->steps && s->step != ((uint64_t)s->epochs_done + 1) * s->epoch_steps);
}

static int finish(struct run *r, struct mlr_error *err)
{
	auto_call(evaluate_done) struct evaluation got = { 0 };
	struct train_state *s = &r->state;

	if (!r->halted)
		TRY(test(r, &r->data->test, s->test_images, 1, &got, err));
	TRY(save_last(r, err));
	if (run_is_elastic(r))
		TRY(elastic_finish(r->o->dist, err));
	if (r->halted) {
		run_tell(r, TRAIN_INTERRUPTED);
		return 0;
	}
	s->test_wrong = got.wrong;
	s->test_error = got.count ? (double)got.wrong / got.count : -1;
	s->test = &got;
	run_tell(r, TRAIN_TESTED);
	s->test = NULL;
	return 0;
}

/* Change the group of elastic ranks if that was agreed, or if one was lost: e is what has failed
 * then. */
static int mend(struct run *r, int e, struct mlr_error *err)
{
	int is_broken = elastic_is_broken(r->o->dist);

	if (e < 0 && !is_broken)
		return e;
	if (!is_broken && !r->change)
		return 0;
	return r->halted && !is_broken ? 0 : run_regroup(r, err);
}

static int loop(struct run *r, struct mlr_error *err)
{
	struct train_state *s = &r->state;
	int e;

	s->reached = s->best_error >= 0 && r->o->target_accuracy > 0 &&
		1 - s->best_error >= r->o->target_accuracy;
	TRY(show_weights(r, err));
	r->runs = 1;
	run_tell_start(r);
	e = run_is_elastic(r) ? 0 : ask(r, 0, err); /* a newcomer would ask alone */
	while (e == 0) {
		while (e == 0 && !is_over(r))
			e = mend(r, one_epoch(r, err), err);
		if (e == 0 && r->gone) {
			s->moment = TRAIN_LEFT;
			return 0;
		}
		if (e == 0)
			e = finish(r, err);
		if (e == 0 || !elastic_is_broken(r->o->dist))
			return e;
		e = mend(r, e, err); /* lost at the end, which the others repeat */
	}
	return e;
}

int train_run(const struct train_options *o, const struct net *net, const struct dataset *data,
	train_tell callback, void *ctx, struct train_state *ret, struct mlr_error *err)
{
	auto_call(run_done) struct run r = { o, net, data, callback, ctx };

	TRY(run_start(&r, err));
	TRY(loop(&r, err));
	*ret = r.state;
	ret->engine = NULL; /* run_done() frees them */
	ret->params = NULL;
	return 0;
}
