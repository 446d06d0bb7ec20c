#include "compose/parts.h"

#include "base/base.h"
#include "base/duration.h"
#include "base/spelling.h"

/* --- where ----------------------------------------------------------------------------------- */

size_t compose_line(const struct compose_reader *r, const struct compose_at *at)
{
	size_t line = 0;

	for (; at && line == 0; at = at->up)
		line = at->in ? mlr_yaml_line(&r->lines, at->in, at->key, at->index) : 0;
	return line;
}

/* "services.web.ports"; to free() */
static char *place(const struct compose_at *at)
{
	auto_free char *up = at->up ? place(at->up) : xstrdup("");

	if (!at->key)
		return take_ptr(&up);
	return xasprintf("%s%s%s", up, *up ? "." : "", at->key);
}

int compose_wrong(struct compose_reader *r, const struct compose_at *at, const char *fmt, ...)
{
	auto_free char *where = place(at), *what = NULL;
	size_t line = compose_line(r, at);
	va_list ap;

	va_start(ap, fmt);
	what = xvasprintf(fmt, ap);
	va_end(ap);
	return mlr_fail(r->err, EINVAL, "'%s' line %zu: %s%s%s", r->file, line ? line : 1, where,
		*where ? ": " : "", what);
}

void compose_keys_each_reach(
	const struct compose_key *keys, const char *above, reach_fn fn, void *ctx)
{
	for (; keys->name; keys++) {
		auto_free char *row =
			xasprintf("%s%s%s", above ? above : "", above ? "." : "", keys->name);

		fn(ctx, row, keys->reach);
		if (keys->below)
			compose_keys_each_reach(keys->below, row, fn, ctx);
	}
}

/* --- mappings and lists ---------------------------------------------------------------------- */

static const struct compose_key *find(const struct compose_key *keys, const char *name)
{
	for (; keys->name; keys++)
		if (strcmp(keys->name, name) == 0)
			return keys;
	return NULL;
}

static int refuse_unknown(
	struct compose_reader *r, const struct compose_at *at, const struct compose_key *keys)
{
	struct spelling s = spelling_of(at->key, strlen(at->key));
	int e = compose_wrong(r, at, "this key is not supported");

	for (; keys->name; keys++)
		spelling_try(&s, keys->name);
	return s.near ? mlr_hint(r->err, "is %s meant?", s.near) : e;
}

int compose_read_map(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	const struct compose_key *keys, void *to)
{
	const char *name;
	json_t *item;

	if (!json_is_object(v))
		return compose_wrong(r, at, "expected a mapping");
	json_object_foreach((json_t *)v, name, item) {
		struct compose_at here = { at, v, name, 0 };
		const struct compose_key *key = find(keys, name);
		int e = 0;

		if (strncmp(name, "x-", 2) == 0)
			continue;
		if (!key)
			return refuse_unknown(r, &here, keys);
		if (key->read)
			e = key->read(r, &here, item, to);
		else if (key->refusal) {
			compose_wrong(r, &here, "this key is not supported");
			return mlr_hint(r->err, "%s", key->refusal);
		}
		if (e < 0)
			return e;
	}
	return 0;
}

int compose_read_list(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	int (*one)(
		struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to),
	void *to)
{
	if (!json_is_array(v))
		return compose_wrong(r, at, "expected a list");
	for (size_t i = 0; i < json_array_size(v); i++) {
		struct compose_at here = { at, v, NULL, i };
		int e = one(r, &here, json_array_get(v, i), to);

		if (e < 0)
			return e;
	}
	return 0;
}

/* --- scalars --------------------------------------------------------------------------------- */

int compose_read_text(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, char **ret)
{
	struct mlr_error why = MLR_ERROR_INIT;
	char *text;

	if (!json_is_string(v))
		return compose_wrong(r, at, "expected a text");
	text = compose_interpolate(json_string_value(v), r->look, r->ctx, &why);
	if (!text) {
		char *hint = strchr(why.text, '\n');

		if (hint)
			*hint = '\0';
		compose_wrong(r, at, "%s", why.text);
		return hint ? mlr_hint(r->err, "%s", hint + 1 + strlen("hint: ")) : -EINVAL;
	}
	free(*ret);
	*ret = text;
	return 0;
}

int compose_read_bool(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, int *ret)
{
	auto_free char *text = NULL;
	int e = compose_read_text(r, at, v, &text);

	if (e < 0)
		return e;
	*ret = strcmp(text, "true") == 0;
	return *ret || strcmp(text, "false") == 0
		? 0
		: compose_wrong(r, at, "expected true or false, not '%s'", text);
}

int compose_read_number(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	long min, long max, long *ret)
{
	auto_free char *text = NULL;
	char *end;
	int e = compose_read_text(r, at, v, &text);

	if (e < 0)
		return e;
	errno = 0;
	*ret = strtol(text, &end, 10);
	if (end == text || *end || errno || *ret < min || *ret > max)
		return compose_wrong(
			r, at, "expected a number from %ld to %ld, not '%s'", min, max, text);
	return 0;
}

int compose_read_span(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, int64_t *ms)
{
	auto_free char *text = NULL;
	int e = compose_read_text(r, at, v, &text);
	int64_t ns;

	if (e < 0)
		return e;
	ns = duration_ns(text);
	if (ns < 0)
		return compose_wrong(r, at, "expected a time such as 30s or 1m30s, not '%s'", text);
	*ms = (ns + 999999) / 1000000;
	return 0;
}

/* --- lists of texts -------------------------------------------------------------------------- */

static int add_text(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to)
{
	char *text = NULL;
	int e = compose_read_text(r, at, v, &text);

	if (e == 0)
		strv_take(to, text);
	return e;
}

int compose_read_texts(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret)
{
	return json_is_string(v) ? add_text(r, at, v, ret)
				 : compose_read_list(r, at, v, add_text, ret);
}

static int set_pair(struct compose_reader *r, const struct compose_at *at, const char *key,
	const char *value, struct strv *ret)
{
	if (!value)
		value = r->look(r->ctx, key);
	if (!*key || strpbrk(key, "= \t\r\n") || *key == '#')
		return compose_wrong(r, at, "invalid name '%s' of a variable", key);
	if (value && strpbrk(value, "\r\n"))
		return compose_wrong(r, at, "the value of %s has more than one line", key);
	if (value)
		strv_env_set(ret, key, value);
	return 0;
}

static int add_pair(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	char *eq;
	int e = compose_read_text(r, at, v, &text);

	if (e < 0)
		return e;
	eq = strchr(text, '=');
	if (eq)
		*eq++ = '\0';
	return set_pair(r, at, text, eq, to);
}

int compose_read_pairs(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return compose_read_list(r, at, v, add_pair, ret);
	json_object_foreach((json_t *)v, key, item) {
		struct compose_at here = { at, v, key, 0 };
		auto_free char *text = NULL;
		int e = json_is_null(item) ? 0 : compose_read_text(r, &here, item, &text);

		if (e == 0)
			e = set_pair(r, &here, key, text, ret);
		if (e < 0)
			return e;
	}
	return 0;
}

/* --- words ----------------------------------------------------------------------------------- */

/* One word, up to a blank outside of quotes. Returns what follows, or NULL for a quote without an
 * end. */
static const char *take_word(const char *s, struct strv *ret)
{
	auto_free char *word = xmalloc(strlen(s) + 1);
	char *out = word, quote = '\0';

	for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
		if (quote ? *s == quote : *s == '"' || *s == '\'')
			quote = quote ? '\0' : *s;
		else if (*s == '\\' && s[1] && (!quote || (quote == '"' && strchr("\"\\$`", s[1]))))
			*out++ = *++s;
		else
			*out++ = *s;
	}
	*out = '\0';
	strv_add(ret, word);
	return quote ? NULL : s;
}

int compose_read_words(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret)
{
	auto_free char *text = NULL;
	int e;

	if (json_is_array(v))
		return compose_read_texts(r, at, v, ret);
	e = compose_read_text(r, at, v, &text);
	if (e < 0)
		return e;
	for (const char *s = text + strspn(text, " \t\n"); *s; s += strspn(s, " \t\n")) {
		s = take_word(s, ret);
		if (!s)
			return compose_wrong(r, at, "a quote does not end");
	}
	return 0;
}

char *compose_absolute(const struct compose_reader *r, const char *path)
{
	auto_free char *whole =
		*path == '/' ? xstrdup(path) : xasprintf("%s/%s", r->directory, path);

	return path_clean(whole);
}
