/* Variables in values, as the compose specification has them (12-interpolation.md). */
#include "compose/compose.h"

#define NAME_FIRST  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define NAME_REST   NAME_FIRST "0123456789"
#define RESULT_MAX  (1u << 20) /* bytes of a value */
#define NESTING_MAX 16

struct expansion {
	compose_lookup look;
	void *ctx;
	char *out;
	size_t len;
	struct mlr_error *err;
};

static int put(struct expansion *x, const char *s, size_t n)
{
	if (x->len + n > RESULT_MAX)
		return mlr_fail(x->err, EINVAL, "the value is longer than %u bytes", RESULT_MAX);
	x->out = xreallocarray(x->out, x->len + n + 1, 1);
	memcpy(x->out + x->len, s, n);
	x->len += n;
	x->out[x->len] = '\0';
	return 0;
}

static int expand(struct expansion *x, const char *s, size_t n, unsigned depth);

static size_t name_length(const char *s, size_t n)
{
	size_t len = strspn(s, NAME_REST);

	return n > 0 && *s && strchr(NAME_FIRST, *s) ? (len < n ? len : n) : 0;
}

/* The "}" that ends what begins behind "${". */
static const char *find_end(const char *s, const char *end)
{
	int open = 1;

	for (; s < end; s++) {
		if (s[0] == '$' && s + 1 < end && s[1] == '$')
			s++;
		else if (s[0] == '$' && s + 1 < end && s[1] == '{')
			open++, s++;
		else if (s[0] == '}' && --open == 0)
			return s;
	}
	return NULL;
}

/* "?": the text behind it is why it must be set. */
static int demand(struct expansion *x, const char *name, const char *why, size_t n, unsigned depth)
{
	struct expansion message = { .look = x->look, .ctx = x->ctx, .err = x->err };
	int r = expand(&message, why, n, depth + 1);

	if (r == 0)
		r = mlr_fail(x->err, EINVAL, "the variable %s is required%s%s", name,
			message.len ? ": " : "", message.len ? message.out : "");
	free(message.out);
	return r;
}

/* "NAME", "NAME:-text", "NAME?text" and kin, of n bytes. */
static int expand_braced(struct expansion *x, const char *s, size_t n, unsigned depth)
{
	size_t len = name_length(s, n), at = len;
	auto_free char *name = xstrndup(s, len);
	const char *value = x->look(x->ctx, name), *rest;
	int colon = at < n && s[at] == ':', is_set;
	char how;

	at += (size_t)colon;
	how = at < n ? s[at] : '\0';
	if (len == 0 || (at < n && !strchr("-?+", how)) || (colon && !how))
		return mlr_fail(x->err, EINVAL, "invalid variable '${%.*s}'", (int)n, s);
	if (!how)
		return value ? put(x, value, strlen(value)) : 0;
	rest = s + at + 1;
	n -= at + 1;
	is_set = value && !(colon && !*value);
	if (how == '+')
		return is_set ? expand(x, rest, n, depth + 1) : 0;
	if (is_set)
		return put(x, value, strlen(value));
	return how == '-' ? expand(x, rest, n, depth + 1) : demand(x, name, rest, n, depth);
}

static int expand_plain(struct expansion *x, const char *s, size_t len)
{
	auto_free char *name = xstrndup(s, len);
	const char *value = x->look(x->ctx, name);

	return value ? put(x, value, strlen(value)) : 0;
}

static int refuse_dollar(struct expansion *x, const char *s, size_t n)
{
	mlr_fail(x->err, EINVAL, "'%.*s' is no variable", n < 20 ? (int)n : 20, s);
	return mlr_hint(x->err, "write $$ for a dollar sign that is to stay");
}

/* One "$" and what belongs to it; *used gets how much that was. */
static int expand_dollar(
	struct expansion *x, const char *s, const char *end, unsigned depth, size_t *used)
{
	size_t len = name_length(s + 1, (size_t)(end - s - 1));
	const char *close;

	if (s + 1 < end && s[1] == '$') {
		*used = 2;
		return put(x, "$", 1);
	}
	if (len > 0) {
		*used = 1 + len;
		return expand_plain(x, s + 1, len);
	}
	close = s + 1 < end && s[1] == '{' ? find_end(s + 2, end) : NULL;
	if (!close)
		return refuse_dollar(x, s, (size_t)(end - s));
	*used = (size_t)(close + 1 - s);
	return expand_braced(x, s + 2, (size_t)(close - s - 2), depth);
}

static int expand(struct expansion *x, const char *s, size_t n, unsigned depth)
{
	const char *end = s + n;

	if (depth > NESTING_MAX)
		return mlr_fail(x->err, EINVAL, "variables are nested too deeply");
	while (s < end) {
		const char *dollar = memchr(s, '$', (size_t)(end - s));
		size_t used = 0;
		int r = put(x, s, (size_t)((dollar ? dollar : end) - s));

		if (r < 0 || !dollar)
			return r;
		TRY(expand_dollar(x, dollar, end, depth, &used));
		s = dollar + used;
	}
	return 0;
}

char *compose_interpolate(const char *text, compose_lookup look, void *ctx, struct mlr_error *err)
{
	struct expansion x = { .look = look, .ctx = ctx, .err = err };

	if (put(&x, "", 0) < 0 || expand(&x, text, strlen(text), 0) < 0) {
		free(x.out);
		return NULL;
	}
	return x.out;
}
