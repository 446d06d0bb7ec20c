#include "train/run.h"

#include "dist/elastic.h"

/* The progress in struct train_state. */
#define PROGRESS_AT   offsetof(struct train_state, step)
#define PROGRESS_SIZE (offsetof(struct train_state, step_seconds) + sizeof(double) - PROGRESS_AT)

/* Copy weights and progress to the ranks that need them. */
static int share(struct run *r, int is_newcomer, struct mlr_error *err)
{
	struct dist *d = r->o->dist;
	char *own = (char *)&r->state + PROGRESS_AT, progress[PROGRESS_SIZE];
	size_t params = r->net->params * sizeof(float);

	if (!elastic_must_share(d))
		return 0;
	TRY(elastic_share(d, r->params, params, err));
	for (int i = 0; i < optimiser_states(r->o->recipe.optimiser); i++)
		TRY(elastic_share(d, r->kept[i], params, err));
	TRY(elastic_share(d, r->states, r->net->states * sizeof(float), err));
	memcpy(progress, own, sizeof(progress));
	TRY(elastic_share(d, progress, sizeof(progress), err));
	if (elastic_needs(d))
		memcpy(own, progress, sizeof(progress));
	if (elastic_needs(d) && is_newcomer)
		r->state.first_step = r->state.step;
	return 0;
}

/* Do all ranks lay their gradients out alike? Machines with other CPUs may not. */
static int compare_layouts(struct run *r, struct mlr_error *err)
{
	struct exchange *x = &r->o->dist->exchange;
	uint64_t layout = r->engine->layout;
	double differs;

	TRY(x->broadcast(x->ctx, &layout, sizeof(layout), err));
	differs = layout != r->engine->layout;
	TRY(x->sum(x->ctx, &differs, 1, err));
	x->plain = differs > 0;
	return 0;
}

/* Open engine and loader for the share of the new generation. */
static int take_place(struct run *r, struct mlr_error *err)
{
	struct dist *d = r->o->dist;
	int rows = r->rows, ranks = r->ranks;

	r->rank = d->rank;
	r->ranks = r->state.ranks = d->ranks;
	run_take_share(r);
	if (ranks == 1 && r->rows == rows && !elastic_needs(d)) /* the first group */
		return 0;
	engine_close(&r->engine);
	loader_close(&r->loader);
	TRY(run_open_engine(r, err));
	TRY(run_write_engine(r, err));
	TRY(run_open_loader(r, err));
	return compare_layouts(r, err);
}

static void tell_change(struct run *r, double since)
{
	struct elastic_change c = elastic_latest(r->o->dist);
	struct train_state *s = &r->state;

	s->generation = c.generation;
	s->joined = c.joined;
	s->left = c.left;
	s->lost = c.lost;
	s->pause_seconds = mlr_now() - since;
	if (r->runs)
		run_tell_start(r);
}

void run_tell_start(struct run *r)
{
	if (r->o->tell_weights)
		r->state.params = r->params; /* just read */
	if (r->rank == 0 && !r->started++)
		run_tell(r, TRAIN_STARTED);
	if (run_is_elastic(r))
		run_tell(r, TRAIN_REGROUPED);
}

/* End this rank's part: it is not in the group. */
static void part(struct run *r, enum elastic_outcome outcome)
{
	r->state.signal = r->o->stop ? *r->o->stop : 0;
	if (outcome == ELASTIC_STOPPED) {
		r->rank = 0;
		r->ranks = r->state.ranks = 1;
		r->halted = 1;
	} else {
		r->gone = 1;
	}
}

int run_regroup(struct run *r, struct mlr_error *err)
{
	struct dist *d = r->o->dist;
	int is_newcomer = elastic_is_newcomer(d), has = !is_newcomer, e;
	enum elastic_outcome outcome;
	double since = mlr_now();

	do {
		struct group_progress at = { has, r->state.epochs_done, r->state.step };

		TRY(elastic_regroup(d, &at, r->leaves, &outcome, err));
		if (outcome != ELASTIC_MEMBER) {
			part(r, outcome);
			return 0;
		}
		e = run_read_engine(r, err);
		if (e == 0)
			e = share(r, is_newcomer, err);
		if (e == 0) {
			has = 1;
			e = take_place(r, err);
		}
	} while (e < 0 && elastic_is_broken(d));
	if (e < 0)
		return e;
	/* A rank may have been lost while some had already agreed to end: all wish again. */
	r->halted = r->change = 0;
	r->state.signal = 0;
	tell_change(r, since);
	return 0;
}
