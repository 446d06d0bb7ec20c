/* .env files and env_file. */
#include "compose/compose.h"

#define BLANKS " \t\r"

struct scope {
	const struct strv *own; /* what was read before */
	compose_lookup look;
	void *ctx;
};

static const char *look_up(void *ctx, const char *name)
{
	const struct scope *s = ctx;
	const char *value = s->look(s->ctx, name);

	return value ? value : strv_env_get(strv_argv(s->own), name);
}

/* In double quotes \n, \t, \" and \\ mean what they do in C, and \$ is a dollar sign: $$. */
static void unescape(char *s)
{
	static const char from[] = "ntr\"\\", to[] = "\n\t\r\"\\";
	char *out = s;

	for (; *s; s++) {
		const char *at = *s == '\\' && s[1] ? strchr(from, s[1]) : NULL;

		if (at)
			s++;
		else if (s[0] == '\\' && s[1] == '$')
			*s = '$';
		*out++ = at ? to[at - from] : *s;
	}
	*out = '\0';
}

/* The text between quotes, or up to a comment. Returns NULL if a quote does not end. */
static char *value_of(char *s, char *quote)
{
	char *end;

	s += strspn(s, BLANKS);
	*quote = *s == '"' || *s == '\'' ? *s : '\0';
	if (*quote) {
		for (end = ++s; *end && *end != *quote; end++)
			if (*quote == '"' && *end == '\\' && end[1])
				end++;
		if (!*end)
			return NULL;
		*end = '\0';
		return s;
	}
	if (*s == '#')
		*s = '\0';
	for (end = s; *end; end++)
		if (*end == '#' && strchr(BLANKS, end[-1]))
			*end = '\0';
	for (end = s + strlen(s); end > s && strchr(BLANKS, end[-1]); end--)
		end[-1] = '\0';
	return s;
}

static int read_line(char *line, struct scope *scope, struct strv *ret, struct mlr_error *err)
{
	char *key = line + strspn(line, BLANKS), *eq, *value, quote;
	auto_free char *text = NULL;

	if (strncmp(key, "export ", 7) == 0)
		key += 7 + strspn(key + 7, BLANKS);
	if (!*key || *key == '#')
		return 0;
	eq = strchr(key, '=');
	key[strcspn(key, "= \t\r")] = '\0';
	if (!*key)
		return mlr_fail(err, EINVAL, "a name is missing");
	if (!eq) { /* the caller's value */
		const char *is = scope->look(scope->ctx, key);

		if (is)
			strv_env_set(ret, key, is);
		return 0;
	}
	value = value_of(eq + 1, &quote);
	if (!value)
		return mlr_fail(err, EINVAL, "%s: the quote does not end", key);
	if (quote == '"')
		unescape(value);
	text = quote == '\'' ? xstrdup(value) : compose_interpolate(value, look_up, scope, err);
	if (!text)
		return mlr_wrap(err, "%s", key);
	strv_env_set(ret, key, text);
	return 0;
}

int compose_env_parse(const char *text, const char *file, compose_lookup look, void *ctx,
	struct strv *ret, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	struct scope scope = { ret, look, ctx };
	char *rest = copy, *line;

	for (size_t n = 1; (line = strsep(&rest, "\n")); n++)
		if (read_line(line, &scope, ret, err) < 0)
			return mlr_wrap(err, "'%s' line %zu", file, n);
	return 0;
}
