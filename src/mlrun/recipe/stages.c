#include "recipe/stages.h"

#include "recipe/run_mount.h"

void stages_done(struct stages *s)
{
	scope_done(&s->global);
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].base);
		free(s->v[i].platform);
	}
	free(s->v);
	*s = (struct stages){ 0 };
}

int stages_find(const struct stages *s, const char *name, size_t before)
{
	char *end;
	unsigned long number = strtoul(name, &end, 10);

	for (size_t i = before; i-- > 0;)
		if (s->v[i].name && strcasecmp(s->v[i].name, name) == 0)
			return (int)i;
	return isdigit((unsigned char)*name) && !*end && number < before ? (int)number : -1;
}

static int blank_base(const struct stages *s, const struct instruction *from, struct mlr_error *err)
{
	mlr_fail(err, EINVAL, "'%.200s': the image's name is empty", from->text);
	return s->global.unset.n > 0
		? mlr_hint(err,
			  "'%.100s' has no value: add 'ARG %.100s=VALUE' before the first FROM",
			  s->global.unset.v[0], s->global.unset.v[0])
		: -EINVAL;
}

static int add_stage(struct stages *s, const struct instruction *from, size_t at, char escape,
	struct mlr_error *err)
{
	const struct expand e = scope_expand(&s->global, escape);
	const char *platform = instruction_flag(from, "--platform");
	struct stage g = { .parent = -1, .from = at, .end = at + 1 };
	int r;

	strv_done(&s->global.unset);
	r = from->is_section ? 0 : expand_word(&e, from->args.v[0], &g.base, err);
	if (from->is_section)
		g.base = xstrdup(from->args.v[0]);
	if (r == 0 && platform)
		r = expand_word(&e, platform, &g.platform, err);
	if (r == 0 && !*g.base)
		r = blank_base(s, from, err);
	if (r < 0) {
		free(g.base);
		free(g.platform);
		return r;
	}
	/* A name, but no number, stands for a stage in FROM. */
	g.parent = isdigit((unsigned char)*g.base) || from->is_section
		? -1
		: stages_find(s, g.base, s->n);
	if (from->args.n == 3)
		g.name = xstrdup(from->args.v[2]);
	for (char *c = g.name; c && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	*xadd(s->v, s->n) = g;
	return 0;
}

int stages_resolve(const struct recipe *r, const struct strv *platform, const struct strv *given,
	struct stages *ret, struct mlr_error *err)
{
	struct stages s = { 0 };
	int status = 0;

	s.global.given = given;
	for (size_t i = 0; platform && i < platform->n; i++)
		strv_add(&s.global.args, platform->v[i]);
	for (size_t i = 0; i < r->n && status == 0; i++) {
		const struct instruction *in = &r->v[i];

		if (in->word == INSTRUCTION_FROM)
			status = add_stage(&s, in, i, r->escape, err);
		else if (s.n > 0)
			s.v[s.n - 1].end = i + 1;
		else
			status = scope_declare(&s.global, in, r->escape, err);
		if (status < 0)
			mlr_wrap(err, "%s:%u", r->name, in->line);
	}
	if (status < 0) {
		stages_done(&s);
		return status;
	}
	*ret = s;
	return 0;
}

/* --- what a stage needs ---------------------------------------------------- */

static void mark(const struct stages *s, const char *name, size_t before, char *ret)
{
	int i = name ? stages_find(s, name, before) : -1;

	if (i >= 0)
		ret[i] = 1;
}

void stages_used_by(const struct stages *s, const struct instruction *in, size_t before, char *ret)
{
	mark(s, instruction_flag(in, "--from"), before, ret);
	for (size_t i = 0; i < in->flags.n; i++) {
		auto_call(run_mount_done) struct run_mount m = RUN_MOUNT_INIT;

		if (strncmp(in->flags.v[i], "--mount=", 8) == 0 &&
			run_mount_parse(in->flags.v[i] + 8, NULL, &m, NULL) == 0)
			mark(s, m.from, before, ret);
	}
}

void stages_need(const struct recipe *r, const struct stages *s, size_t target, char *ret)
{
	ret[target] = 1;
	/* A stage needs only earlier ones. */
	for (size_t i = target + 1; i-- > 0;) {
		const struct stage *g = &s->v[i];

		if (!ret[i])
			continue;
		if (g->parent >= 0)
			ret[g->parent] = 1;
		for (size_t k = g->from + 1; k < g->end; k++)
			stages_used_by(s, &r->v[k], i, ret);
	}
}
