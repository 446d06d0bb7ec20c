/* Follows the instructions of all stages that are needed: those that do not need each other side by
 * side, with each RUN's command in a process of its own. */
#include "build/run.h"

#include <jansson.h>

/* A stage under way. */
struct worker {
	size_t n;                     /* the stage */
	struct instruction *triggers; /* ONBUILD's of its base */
	size_t n_triggers;
	size_t next;         /* the instruction to follow: a trigger, then those of the recipe */
	struct running *run; /* its command, from run_new() to run_end() */
	int is_begun, is_done;
};

struct schedule {
	struct build *b;
	struct worker *v; /* one for each stage */
	size_t n;
	char *needed;     /* the stages to build; grows as triggers of images name others */
	size_t n_running; /* commands */
	int is_labelled;  /* commands of several stages may run at once */
};

static void schedule_done(struct schedule *s)
{
	for (size_t i = 0; i < s->n; i++) {
		run_free(s->v[i].run);
		for (size_t k = 0; k < s->v[i].n_triggers; k++)
			instruction_done(&s->v[i].triggers[k]);
		free(s->v[i].triggers);
	}
	free(s->v);
	free(s->needed);
}

/* --- instructions ---------------------------------------------------------------- */

/* Change only the configuration. */
static int change(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	struct derive d = { .created_by = in->text,
		.comment = "mlrun build",
		.changes = in,
		.n_changes = 1,
		.keep_cmd = s->has_cmd,
		.get = scope_get,
		.ctx = &s->scope,
		.escape = b->o->recipe->escape };

	s->has_cmd |= in->word == INSTRUCTION_CMD;
	return state_derive(s, &d, 0, err);
}

static int declare(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	for (size_t i = 0; i < in->args.n; i++)
		strv_addf(&b->used, "%.*s", (int)strcspn(in->args.v[i], "="), in->args.v[i]);
	return scope_declare(&s->scope, in, b->o->recipe->escape, err);
}

/* Follow one instruction. Returns 0 when it is done; a RUN's command is in *run then, if it has to
 * be started. */
static int follow(struct build *b, struct state *s, const struct instruction *in,
	struct running **run, struct mlr_error *err)
{
	int r;

	if (build_is_cancelled(b))
		return mlr_fail(err, ECANCELED, "interrupted");
	TRY(build_may(b, in, err));
	switch (in->word) {
	case INSTRUCTION_ARG:
		return declare(b, s, in, err);
	case INSTRUCTION_RUN:
		r = run_new(b, s, in, run, err);
		return r < 0 ? r : 0;
	case INSTRUCTION_ADD:
	case INSTRUCTION_COPY:
		return build_copy_step(b, s, in, err);
	case INSTRUCTION_WORKDIR:
		r = change(b, s, in, err);
		return r < 0 ? r : build_workdir_step(b, s, in, err);
	default:
		return change(b, s, in, err);
	}
}

/* --- stages ----------------------------------------------------------------------- */

static int find_base(struct build *b, const struct stage *g, struct state *s, struct mlr_error *err)
{
	const char *platform = build_platform(b, g);
	const char *named = build_context_named(b, g->base);

	s->scope.global = &b->stages.global;
	s->scope.given = b->o->args;
	build_time(b->o->epoch, s->created); /* of scratch */
	if (g->parent >= 0 && !named) {
		state_from_stage(s, &b->states[g->parent]);
		return 0;
	}
	if (strcasecmp(g->base, "scratch") == 0)
		return state_scratch(s, platform, err);
	return build_open_image(b, g->base, platform, s, err);
}

/* Read what the base asks of those who build on it. */
static int read_triggers(
	struct state *s, struct worker *w, const struct instruction *from, struct mlr_error *err)
{
	json_auto_t *root = json_loads(s->config, 0, NULL);
	json_t *list = json_object_get(json_object_get(root, "config"), "OnBuild"), *v;
	struct derive d = { .created_by = "ONBUILD", .drop_triggers = 1 };
	size_t i;
	int r = json_array_size(list) > 0 ? state_derive(s, &d, 0, err) : 0;

	json_array_foreach(list, i, v) {
		struct instruction in = { 0 };

		if (r == 0)
			r = recipe_parse_trigger(
				json_string_value(v) ? json_string_value(v) : "", &in, err);
		if (r < 0)
			return mlr_wrap(err, "ONBUILD of '%s'", from->args.v[0]);
		in.line = from->line;
		*xadd(w->triggers, w->n_triggers) = in;
	}
	return r;
}

static int begin(struct build *b, struct worker *w, struct mlr_error *err)
{
	const struct stage *g = &b->stages.v[w->n];
	const struct instruction *from = &b->o->recipe->v[g->from];
	struct state *s = &b->states[w->n];
	int r = find_base(b, g, s, err);

	w->is_begun = 1;
	if (r == 0 && !from->is_section)
		r = read_triggers(s, w, from, err);
	return r < 0 ? mlr_wrap(err, "%s:%u", b->o->recipe->name, from->line) : 0;
}

/* The instruction to follow, or NULL at the stage's end. */
static const struct instruction *next_of(const struct build *b, const struct worker *w)
{
	const struct stage *g = &b->stages.v[w->n];
	size_t i = w->next - w->n_triggers + g->from + 1;

	if (w->next < w->n_triggers)
		return &w->triggers[w->next];
	return i < g->end ? &b->o->recipe->v[i] : NULL;
}

static int wrap(const struct build *b, const struct worker *w, struct mlr_error *err)
{
	const struct stage *g = &b->stages.v[w->n];

	if (w->next < w->n_triggers)
		mlr_wrap(err, "ONBUILD of '%s'", b->o->recipe->v[g->from].args.v[0]);
	return mlr_wrap(err, "%s:%u", b->o->recipe->name, next_of(b, w)->line);
}

/* --- side by side ------------------------------------------------------------------ */

/* Are the stages done that a stage's beginning, or an instruction of it, needs? */
static int is_ready(struct schedule *s, const struct worker *w, const struct instruction *in)
{
	auto_free char *used = xcalloc(s->n, 1);
	int parent = s->b->stages.v[w->n].parent, is_it = 1;

	if (in)
		stages_used_by(&s->b->stages, in, w->n, used);
	else if (parent >= 0)
		used[parent] = 1;
	for (size_t i = 0; i < s->n; i++) {
		s->needed[i] |= used[i];
		is_it &= !used[i] || s->v[i].is_done;
	}
	return is_it;
}

/* Follow a stage's instructions up to its end, to a command that has to run, or to what needs a
 * stage that is not done. */
static int advance(struct schedule *s, struct worker *w, struct mlr_error *err)
{
	struct build *b = s->b;
	const struct instruction *in = NULL;
	int r = 0;

	b->at = w->n;
	if (!w->is_begun)
		r = is_ready(s, w, NULL) ? begin(b, w, err) : 0;
	while (r == 0 && w->is_begun && !w->run && (in = next_of(b, w)) && is_ready(s, w, in)) {
		r = follow(b, &b->states[w->n], in, &w->run, err);
		if (r < 0)
			return wrap(b, w, err);
		if (!w->run)
			w->next++;
	}
	w->is_done = r == 0 && w->is_begun && !in;
	return r;
}

static int is_running(const struct worker *w)
{
	return w->run && w->run->pid > 0;
}

static int start(struct schedule *s, struct worker *w, struct mlr_error *err)
{
	const char *name = s->b->stages.v[w->n].name;
	auto_free char *label = name ? xstrdup(name) : xasprintf("stage %zu", w->n);
	int r;

	s->b->at = w->n;
	r = run_start(w->run, s->is_labelled ? label : NULL, s->n_running > 0, err);
	if (r < 0)
		return wrap(s->b, w, err);
	if (r == 0)
		s->n_running++;
	return 0;
}

/* Without labels, as when a trigger of an image made a stage necessary, commands run alone. */
static int may_start(const struct schedule *s)
{
	return s->n_running == 0 || (s->is_labelled && s->n_running < s->b->o->jobs);
}

/* Bring every stage that can go on as far as it can. */
static int advance_all(struct schedule *s, struct mlr_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct worker *w = &s->v[i];
		int r = 0;

		if (!s->needed[i] || w->is_done || is_running(w))
			continue;
		if (!w->run)
			r = advance(s, w, err);
		if (r == 0 && w->run && may_start(s))
			r = start(s, w, err);
		TRY(r);
	}
	return 0;
}

/* Wait for the end of one command. */
static int finish_one(struct schedule *s, struct mlr_error *err)
{
	auto_free struct running **runs = xcalloc(s->n, sizeof(*runs));
	auto_free struct worker **workers = xcalloc(s->n, sizeof(*workers));
	size_t n = 0, i;
	int status, r;

	for (i = 0; i < s->n; i++)
		if (is_running(&s->v[i])) {
			workers[n] = &s->v[i];
			runs[n++] = s->v[i].run;
		}
	TRY(run_wait(runs, n, &i, &status, err));
	s->n_running--;
	s->b->at = workers[i]->n;
	r = run_end(runs[i], status, err);
	if (r < 0)
		return wrap(s->b, workers[i], err);
	run_free(take_ptr(&workers[i]->run));
	workers[i]->next++;
	return 0;
}

static int is_built_on(const struct stages *s, size_t i, size_t j)
{
	int at = (int)i;

	while (at >= 0 && at != (int)j)
		at = s->v[at].parent;
	return at >= 0;
}

/* May two of the stages be under way at the same time? */
static int has_independent(const struct schedule *s)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < i; j++)
			if (s->needed[i] && s->needed[j] && !is_built_on(&s->b->stages, i, j))
				return 1;
	return 0;
}

int build_stages(struct build *b, size_t target, struct mlr_error *err)
{
	auto_call(schedule_done) struct schedule s = { .b = b, .n = b->stages.n };
	int r;

	s.v = xcalloc(s.n, sizeof(*s.v));
	for (size_t i = 0; i < s.n; i++)
		s.v[i].n = i;
	s.needed = xcalloc(s.n, 1);
	stages_need(b->o->recipe, &b->stages, target, s.needed);
	s.is_labelled = b->o->jobs > 1 && has_independent(&s);
	do {
		r = advance_all(&s, err);
		if (r == 0 && s.n_running > 0)
			r = finish_one(&s, err);
	} while (r == 0 && !s.v[target].is_done);
	return r;
}
