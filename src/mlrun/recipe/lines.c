#include "recipe/lines.h"

#include "base/base.h"
#include "recipe/text.h"

static const char *const names[LINES_DIRECTIVES] = { "syntax", "escape", "check" };

struct lines lines_of(const char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf"; /* Unicode's byte order mark */
	size_t skip = len >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;

	return (struct lines){ .at = text + skip, .end = text + len, .escape = '\\' };
}

void lines_done(struct lines *l)
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
	struct text all = TEXT_INIT;
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
	free(line->text);
	line->text = text_take(&all);
}

int lines_next(struct lines *l, struct logical_line *ret, struct mlr_error *err)
{
	for (;;) {
		auto_free char *physical = next_physical(l);
		struct logical_line line = { NULL, l->number, 0, 0 };
		const char *start;
		int r;

		if (!physical)
			return 0;
		start = physical + text_blank(physical);
		r = take_directive(l, start, err);
		if (r < 0)
			return r;
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

int lines_heredoc(struct lines *l, const char *name, int strip, char **ret, struct mlr_error *err)
{
	unsigned first = l->number;
	struct text out = TEXT_INIT;
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
