#include "compose/parts.h"

#include "base/duration.h"

void compose_place(const struct record_reader *r, const json_t *in, const char *key, size_t at)
{
	struct compose_reader *c = r->ctx;
	char *below = c->where;

	if (!c->line)
		c->line = mlr_yaml_place(&c->lines, in, key, at);
	if (!key)
		return;
	c->where = xasprintf("%s%s%s", key, below ? "." : "", below ? below : "");
	free(below);
}

int compose_read_keys(const struct record_reader *r, const json_t *v,
	int (*one)(const struct record_reader *r, const char *key, const json_t *v, void *to),
	void *to)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return record_expected(r, "a mapping", v);
	json_object_foreach((json_t *)v, key, item) {
		int e = one(r, key, item, to);

		if (e < 0) {
			compose_place(r, v, key, 0);
			return e;
		}
	}
	return 0;
}

int compose_read_one(const struct record_reader *r, const struct record_row *rows, const json_t *v,
	void *to, char **text)
{
	return json_is_object(v) ? record_read(r, rows, v, to) : record_text(r, v, text);
}

void compose_ignore(const struct record_reader *r, const char *key)
{
	const struct compose_reader *c = r->ctx;

	if (!strv_has(c->ignored, key))
		strv_add(c->ignored, key);
}

void compose_drop(const struct record_reader *r, const json_t *v, const char *const *keys)
{
	json_t *o = (json_t *)v, *item;
	const char *key;
	void *next;

	for (; *keys; keys++)
		if (json_object_get(o, *keys)) {
			compose_ignore(r, *keys);
			json_object_del(o, *keys);
		}
	json_object_foreach_safe(o, next, key, item) if (json_is_null(item))
		json_object_del(o, key);
}

int compose_read_span(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	int64_t ns;

	TRY(record_text(r, v, &text));
	ns = duration_ns(text);
	if (ns < 0)
		return record_expected(r, "a time such as 30s or 1m30s", v);
	*(int64_t *)to = (ns + 999999) / 1000000;
	return 0;
}

/* --- pairs ----------------------------------------------------------------------------------- */

static int set_pair(
	const struct record_reader *r, const char *key, const char *value, struct strv *ret)
{
	const struct compose_reader *c = r->ctx;

	if (!value)
		value = c->wish->look(c->wish->ctx, key);
	if (!*key || strpbrk(key, "= \t\r\n") || *key == '#')
		return record_wrong(r, "invalid name '%s' of a variable", key);
	if (value)
		strv_env_set(ret, key, value);
	return 0;
}

static int add_text(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	char *eq;

	TRY(record_text(r, v, &text));
	eq = strchr(text, '=');
	if (eq)
		*eq++ = '\0';
	return set_pair(r, text, eq, to);
}

static int add_pair(const struct record_reader *r, const char *key, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	if (!json_is_null(v))
		TRY(record_text(r, v, &text));
	return set_pair(r, key, text, to);
}

int compose_read_pairs(const struct record_reader *r, const json_t *v, void *to)
{
	return json_is_object(v) ? compose_read_keys(r, v, add_pair, to)
				 : record_each(r, v, add_text, to);
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

int compose_read_words(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	if (json_is_null(v))
		return 0;
	if (json_is_array(v))
		return record_texts(r, v, to);
	TRY(record_text(r, v, &text));
	for (const char *s = text + strspn(text, " \t\n"); *s; s += strspn(s, " \t\n")) {
		s = take_word(s, to);
		if (!s)
			return record_wrong(r, "a quote does not end");
	}
	return 0;
}

char *compose_below(const char *directory, const char *path)
{
	auto_free char *whole = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", directory, path);

	return path_clean(whole);
}

char *compose_absolute(const struct record_reader *r, const char *path)
{
	return compose_below(((const struct compose_reader *)r->ctx)->wish->directory, path);
}
