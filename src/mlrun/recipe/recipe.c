#include "recipe/recipe.h"

#include "recipe/text.h"

/*
 * Reads a recipe's logical lines: without comments, with continued lines joined. Source: the
 * Dockerfile reference, "Format" and "Parser directives".
 */

enum { LINES_SYNTAX, LINES_ESCAPE, LINES_CHECK, LINES_DIRECTIVES };

struct lines {
	const char *at, *end;               /* what is left of the text; borrowed */
	unsigned number;                    /* of the physical line last read, from 1 */
	char escape;                        /* '\\', or '`' by the directive escape */
	char *directives[LINES_DIRECTIVES]; /* their values, or NULL */
	int are_over;                       /* directives stand only at the top */
};

struct logical_line {
	char *text;
	unsigned first, last; /* its physical lines */
	unsigned gap;         /* an empty line among the continued ones, or 0 */
};

static const char *const names[LINES_DIRECTIVES] = { "syntax", "escape", "check" };

/* Begin with len bytes of text, which must outlive the struct. */
static struct lines lines_of(const char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf"; /* Unicode's byte order mark */
	size_t skip = len >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;

	return (struct lines){ .at = text + skip, .end = text + len, .escape = '\\' };
}

static void lines_done(struct lines *l)
{
	for (size_t i = 0; i < LINES_DIRECTIVES; i++)
		free(l->directives[i]);
}

/* Read a physical line with its end. 0 at the end of the text. */
static int next_raw(struct lines *l, const char **line, size_t *len)
{
	const char *newline;

	if (l->at == l->end)
		return 0;
	newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
	*line = l->at;
	l->at = newline ? newline + 1 : l->end;
	*len = (size_t)(l->at - *line);
	l->number++;
	return 1;
}

/* The same without its end, as a string to free(); NULL at the end of the text. */
static char *next_physical(struct lines *l)
{
	const char *line;
	size_t len;

	if (!next_raw(l, &line, &len))
		return NULL;
	while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		len--;
	return xstrndup(line, len);
}

/* Split "# name = value" in place. 0 if the line has another form. */
static int split_directive(char *line, char **name, char **value)
{
	char *end;
	size_t len;

	*name = line + 1 + text_blank(line + 1);
	len = strspn(*name, TEXT_LETTERS TEXT_DIGITS);
	end = *name + len;
	if (len == 0 || strchr(TEXT_DIGITS, **name) || end[text_blank(end)] != '=')
		return 0;
	*value = end + text_blank(end) + 1;
	*value += text_blank(*value);
	*end = '\0';
	text_chop(*value);
	return **value != '\0';
}

/* Is a comment a directive? Remembers its value then. */
static int take_directive(struct lines *l, const char *comment, struct mlr_error *err)
{
	auto_free char *line = xstrdup(comment);
	char *name, *value;
	size_t i;

	if (l->are_over)
		return 0;
	l->are_over = 1;
	if (*line != '#' || !split_directive(line, &name, &value))
		return 0;
	for (i = 0; i < LINES_DIRECTIVES; i++)
		if (strcasecmp(name, names[i]) == 0)
			break;
	if (i == LINES_DIRECTIVES)
		return 0;
	l->are_over = 0;
	if (l->directives[i])
		return mlr_fail(err, EINVAL, "the directive '%s' appears twice", names[i]);
	l->directives[i] = xstrdup(value);
	if (i != LINES_ESCAPE)
		return 0;
	if (strcmp(value, "\\") != 0 && strcmp(value, "`") != 0)
		return mlr_fail(
			err, EINVAL, "invalid escape character '%.100s': use \\ or `", value);
	l->escape = *value;
	return 0;
}

/* Remove the mark of a continued line: an escape character, not itself escaped, and blanks at the
 * end. */
static int cut_continuation(const struct lines *l, char *line)
{
	size_t len = strlen(line);

	while (len > 0 && strchr(" \t", line[len - 1]))
		len--;
	if (len == 0 || line[len - 1] != l->escape || (len > 1 && line[len - 2] == l->escape))
		return 0;
	line[len - 1] = '\0';
	return 1;
}

/* Join the lines that follow a continued one. Comments among them vanish. */
static void join(struct lines *l, struct logical_line *line)
{
	struct text all = { 0 };
	int more = 1;

	text_add(&all, line->text, strlen(line->text));
	while (more) {
		auto_free char *next = next_physical(l);
		const char *start;

		if (!next)
			break;
		start = next + text_blank(next);
		if (*start == '#')
			continue;
		if (!*start) {
			line->gap = l->number;
			continue;
		}
		more = cut_continuation(l, next);
		text_add(&all, next, strlen(next));
	}
	set_ptr(&line->text, text_take(&all));
}

/* Read the next logical line. Returns 1, 0 at the end, or -EINVAL for an invalid directive. */
static int lines_next(struct lines *l, struct logical_line *ret, struct mlr_error *err)
{
	for (;;) {
		auto_free char *physical = next_physical(l);
		struct logical_line line = { NULL, l->number, 0, 0 };
		const char *start;

		if (!physical)
			return 0;
		start = physical + text_blank(physical);
		TRY(take_directive(l, start, err));
		if (!*start || *start == '#')
			continue;
		line.text = xstrdup(start);
		if (cut_continuation(l, line.text))
			join(l, &line);
		line.last = l->number;
		if (!line.text[text_blank(line.text)]) {
			free(line.text);
			continue;
		}
		*ret = line;
		return 1;
	}
}

/*
 * Read the physical lines up to one that is name alone: a here-document's content.
 *
 *   strip  remove leading tabs, as "<<-" asks, from the content and the last line
 *
 * Returns 0, or -EINVAL if the end is missing.
 */
static int lines_heredoc(
	struct lines *l, const char *name, int strip, char **ret, struct mlr_error *err)
{
	unsigned first = l->number;
	struct text out = { 0 };
	const char *line;
	size_t len;

	while (next_raw(l, &line, &len)) {
		size_t end = len, tabs = 0;

		while (strip && tabs < len && line[tabs] == '\t')
			tabs++;
		while (end > tabs && (line[end - 1] == '\n' || line[end - 1] == '\r'))
			end--;
		if (end - tabs == strlen(name) && strncmp(line + tabs, name, end - tabs) == 0) {
			*ret = text_take(&out);
			return 0;
		}
		text_add(&out, line + tabs, len - tabs);
	}
	text_done(&out);
	return mlr_fail(err, EINVAL,
		"the here-document '%.100s' of line %u has no line '%.100s' that ends it", name,
		first, name);
}

void recipe_done(struct recipe *r)
{
	free(r->name);
	free(r->syntax);
	free(r->check);
	free_all(r->v, r->n, instruction_done);
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

		TRY(lines_heredoc(l, h->name, h->strip, &h->content, err));
		/* What ONBUILD keeps is a text that is parsed again later. */
		if (in->word == INSTRUCTION_ONBUILD) {
			char *all = xasprintf("%s\n%s%s", in->args.v[0], h->content, h->name);

			set_ptr(&in->args.v[0], all);
		}
	}
	return 0;
}

static int add_line(
	struct recipe *r, struct lines *l, const struct logical_line *line, struct mlr_error *err)
{
	auto_call(instruction_done) struct instruction in = { 0 };
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
	*xadd(r->v, r->n) = in;
	in = (struct instruction){ 0 };
	if (line->gap)
		*xadd(r->gaps, r->n_gaps) = line->gap;
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
	struct instruction in = { 0 };
	struct logical_line line;
	int r = lines_next(&l, &line, err);

	if (r == 0)
		r = mlr_fail(err, EINVAL, "the instruction is empty");
	TRY(r);
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
