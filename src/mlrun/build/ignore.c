#include "build/ignore.h"

#include <fnmatch.h>

#define BLANKS " \t\r\n\v\f"

struct ignore_pattern {
	struct strv parts; /* of the path */
	int is_exception;
};

void ignore_done(struct ignore *g)
{
	for (size_t i = 0; i < g->n; i++)
		strv_done(&g->v[i].parts);
	free(g->v);
	*g = (struct ignore){ 0 };
}

static void split(const char *path, struct strv *ret)
{
	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		size_t len = strcspn(path, "/");

		strv_addf(ret, "%.*s", (int)len, path);
		path += len;
	}
}

void ignore_add(struct ignore *g, const char *pattern)
{
	struct ignore_pattern p = { STRV_INIT, *pattern == '!' };
	const char *text = pattern + p.is_exception;
	auto_free char *path = NULL, *clean = NULL;

	text += strspn(text, BLANKS);
	if (!*text || *pattern == '#')
		return;
	path = xasprintf("/%s", text);
	clean = path_clean(path);
	split(clean, &p.parts);
	if (p.parts.n == 0) /* "." or "/" matches nothing, as in Docker */
		return;
	*xadd(g->v, g->n) = p;
	g->has_exceptions |= p.is_exception;
}

void ignore_parse(struct ignore *g, const char *text)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *line;

	/* Skip Unicode's byte order mark. */
	if (strncmp(rest, "\xef\xbb\xbf", 3) == 0)
		rest += 3;
	while ((line = strsep(&rest, "\n"))) {
		size_t len;

		line += strspn(line, BLANKS);
		len = strlen(line);
		while (len > 0 && strchr(BLANKS, line[len - 1]))
			line[--len] = '\0';
		ignore_add(g, line);
	}
}

/* Do the pattern's parts match a beginning of the path's? A pattern that matches a directory
 * matches what is in it. at[i]: the first i parts of the path can be matched so far. */
static int matches(const struct strv *pattern, const struct strv *path)
{
	auto_free char *at = xcalloc(2, path->n + 1);
	char *next = at + path->n + 1;

	at[0] = 1;
	for (size_t p = 0; p < pattern->n; p++) {
		int is_any = strcmp(pattern->v[p], "**") == 0;

		memset(next, 0, path->n + 1);
		for (size_t i = 0; i <= path->n; i++) {
			if (is_any)
				next[i] = at[i] || (i > 0 && next[i - 1]);
			else if (i > 0)
				next[i] =
					at[i - 1] && fnmatch(pattern->v[p], path->v[i - 1], 0) == 0;
		}
		memcpy(at, next, path->n + 1);
	}
	/* "a/ **" matches what is in a, but not a itself. */
	for (size_t i = strcmp(pattern->v[pattern->n - 1], "**") == 0 && pattern->n > 1 ? pattern->n
											: 1;
		i <= path->n; i++)
		if (at[i])
			return 1;
	return 0;
}

int ignore_match(const struct ignore *g, const char *path)
{
	auto_strv struct strv parts = STRV_INIT;
	int is_out = 0;

	split(path, &parts);
	for (size_t i = 0; i < g->n; i++)
		if (is_out == g->v[i].is_exception && matches(&g->v[i].parts, &parts))
			is_out = !g->v[i].is_exception;
	return is_out;
}
