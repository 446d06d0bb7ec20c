#include "recipe/recipe.h"

#include "base/base.h"
#include "recipe/lines.h"

void recipe_done(struct recipe *r)
{
	free(r->name);
	free(r->syntax);
	free(r->check);
	for (size_t i = 0; i < r->n; i++)
		instruction_done(&r->v[i]);
	free(r->v);
	free(r->gaps);
	*r = (struct recipe)RECIPE_INIT;
}

/* Does the recipe begin as it must, with FROM or with ARG before it? */
static int check_order(const struct recipe *r, const struct instruction *in, struct mlr_error *err)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].word == INSTRUCTION_FROM)
			return 0;
	if (in->word == INSTRUCTION_FROM || in->word == INSTRUCTION_ARG)
		return 0;
	return mlr_fail(
		err, EINVAL, "'%.100s' before the first FROM: only ARG may be there", in->text);
}

static int read_heredocs(struct lines *l, struct instruction *in, struct mlr_error *err)
{
	for (size_t i = 0; i < in->n_heredocs; i++) {
		struct heredoc *h = &in->heredocs[i];
		int r = lines_heredoc(l, h->name, h->strip, &h->content, err);

		if (r < 0)
			return r;
		/* What ONBUILD keeps is a text that is parsed again later. */
		if (in->word == INSTRUCTION_ONBUILD) {
			char *all = xasprintf("%s\n%s%s", in->args.v[0], h->content, h->name);

			free(in->args.v[0]);
			in->args.v[0] = all;
		}
	}
	return 0;
}

static int add_line(
	struct recipe *r, struct lines *l, const struct logical_line *line, struct mlr_error *err)
{
	auto_call(instruction_done) struct instruction in = INSTRUCTION_INIT;
	int ret = instruction_parse(line->text, l->escape, &in, err);

	if (ret == 0)
		ret = instruction_check(&in, l->escape, err);
	if (ret == 0)
		ret = check_order(r, &in, err);
	if (ret == 0)
		ret = read_heredocs(l, &in, err);
	if (ret < 0)
		return ret;
	in.line = line->first;
	r->v = xgrow(r->v, r->n, sizeof(in));
	r->v[r->n++] = in;
	in = (struct instruction)INSTRUCTION_INIT;
	if (line->gap) {
		r->gaps = xgrow(r->gaps, r->n_gaps, sizeof(*r->gaps));
		r->gaps[r->n_gaps++] = line->gap;
	}
	return 0;
}

static int add_lines(struct recipe *r, struct lines *l, struct mlr_error *err)
{
	for (;;) {
		struct logical_line line;
		int ret = lines_next(l, &line, err);

		if (ret < 0)
			return mlr_wrap(err, "%s:%u", r->name, l->number);
		if (ret == 0)
			return 0;
		ret = add_line(r, l, &line, err);
		free(line.text);
		if (ret < 0)
			return mlr_wrap(err, "%s:%u", r->name, line.first);
	}
}

int recipe_parse_trigger(const char *text, struct instruction *ret, struct mlr_error *err)
{
	struct lines l = lines_of(text, strlen(text));
	struct instruction in = INSTRUCTION_INIT;
	struct logical_line line;
	int r = lines_next(&l, &line, err);

	if (r == 0)
		r = mlr_fail(err, EINVAL, "the instruction is empty");
	if (r < 0)
		return r;
	r = instruction_parse(line.text, l.escape, &in, err);
	if (r == 0)
		r = instruction_check_trigger(&in, err);
	if (r == 0)
		r = instruction_check(&in, l.escape, err);
	if (r == 0)
		r = read_heredocs(&l, &in, err);
	free(line.text);
	lines_done(&l);
	if (r < 0)
		instruction_done(&in);
	else
		*ret = in;
	return r;
}

static int has_from(const struct recipe *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].word == INSTRUCTION_FROM)
			return 1;
	return 0;
}

int recipe_parse(
	const char *name, const char *text, size_t len, struct recipe *ret, struct mlr_error *err)
{
	struct lines l = lines_of(text, len);
	struct recipe r = RECIPE_INIT;
	int status;

	if (len > RECIPE_MAX)
		return mlr_fail(err, EFBIG, "%s: the recipe has %zu bytes, more than %zu", name,
			len, RECIPE_MAX);
	if (memchr(text, '\0', len))
		return mlr_fail(err, EINVAL, "%s: this is not a text file", name);
	r.name = xstrdup(name);
	status = add_lines(&r, &l, err);
	if (status == 0 && !has_from(&r))
		status = mlr_fail(err, EINVAL, "%s: no FROM in it", name);
	r.escape = l.escape;
	r.syntax = take_ptr(&l.directives[LINES_SYNTAX]);
	r.check = take_ptr(&l.directives[LINES_CHECK]);
	lines_done(&l);
	if (status < 0) {
		recipe_done(&r);
		return status;
	}
	*ret = r;
	return 0;
}
