#include "recipe/expand.h"

#include "recipe/text.h"

/*
 * Matches the patterns of ${name#pattern} and its kin: '?' is any character, '*' any number of
 * them, '\' takes the next one literally (POSIX.1-2017, XCU 2.6.2, without bracket expressions,
 * which the Dockerfile reference has not).
 */

/* Is the pattern valid? An escape must be followed by '*', '?', '\', '/' or '}'. */
static int pattern_is_valid(const char *pattern)
{
	for (const char *p = pattern; *p; p++)
		if (*p == '\\' && (!*++p || !strchr("*?\\/}", *p)))
			return 0;
	return 1;
}

/* The bytes of the UTF-8 character at s; 1 for a byte that begins none. */
static size_t character(const char *s)
{
	size_t n = 1;

	if ((*s & 0xc0) == 0xc0)
		while ((s[n] & 0xc0) == 0x80)
			n++;
	return n;
}

/* Follow the stars at places of the pattern that can be reached: a star may match nothing. */
static void spread(const char *pattern, size_t n, char *at)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] && pattern[i] == '*')
			at[i + 1] = 1;
}

/* Take one character of s, len bytes: from the places that could be reached to the next ones.
 * Returns whether there is any. */
static int step(const char *pattern, size_t n, const char *at, const char *s, size_t len, char *to)
{
	int any = 0;

	memset(to, 0, n + 1);
	for (size_t i = 0; i < n; i++) {
		size_t from = i;

		if (!at[i])
			continue;
		if (pattern[i] == '*') {
			to[i] = any = 1;
		} else if (pattern[i] == '?') {
			to[i + 1] = any = 1;
		} else {
			from += pattern[i] == '\\';
			if (strncmp(pattern + from, s, len) == 0)
				to[from + len] = any = 1;
		}
	}
	return any;
}

/* The length of the shortest or longest beginning of s that matches, or -1. */
static ssize_t pattern_begin(const char *pattern, const char *s, int longest)
{
	size_t n = strlen(pattern), done = 0;
	auto_free char *at = xcalloc(2, n + 1);
	char *to = at + n + 1;
	ssize_t found = -1;

	at[0] = 1;
	for (;;) {
		size_t len = s[done] ? character(s + done) : 0;

		spread(pattern, n, at);
		if (at[n])
			found = (ssize_t)done;
		if ((found >= 0 && !longest) || len == 0 ||
			!step(pattern, n, at, s + done, len, to))
			return found;
		memcpy(at, to, n + 1);
		done += len;
	}
}

/* The bytes of the last of n bytes' characters. */
static size_t last_character(const char *s, size_t n)
{
	size_t at = n - 1;

	while (at > 0 && (s[at] & 0xc0) == 0x80)
		at--;
	return (s[at] & 0xc0) == 0xc0 ? n - at : 1;
}

/* rest[i]: the pattern from place i on matches the rest of the text. Stars may match nothing. */
static void spread_back(const char *pattern, size_t n, char *rest)
{
	for (size_t i = n; i-- > 0;)
		if (pattern[i] == '*' && rest[i + 1])
			rest[i] = 1;
}

/* The same for the text with one more character before it, len bytes at s. */
static void step_back(const char *pattern, size_t n, char *rest, const char *s, size_t len)
{
	for (size_t i = 0; i < n;) {
		size_t at = i + (pattern[i] == '\\');

		if (pattern[i] == '?')
			rest[i] = rest[i + 1];
		else if (pattern[i] != '*')
			rest[i] = strncmp(pattern + at, s, len) == 0 ? rest[at + len] : 0;
		i = at + character(pattern + at);
	}
	rest[n] = 0;
	spread_back(pattern, n, rest);
}

/* The length of the shortest or longest end of s that matches, or -1. */
static ssize_t pattern_end(const char *pattern, const char *s, int longest)
{
	size_t n = strlen(pattern), all = strlen(s), left = all;
	auto_free char *rest = xcalloc(1, n + 1);
	ssize_t found = -1;

	rest[n] = 1;
	spread_back(pattern, n, rest);
	for (;;) {
		if (rest[0])
			found = (ssize_t)(all - left);
		if ((found >= 0 && !longest) || left == 0)
			return found;

		size_t len = last_character(s, left);

		left -= len;
		step_back(pattern, n, rest, s + left, len);
	}
}

#define DEPTH_MAX 64 /* of ${a:-${b:-…}} */

struct expansion {
	const struct expand *e;
	const char *at;     /* what is left to read */
	struct text out;    /* the word, or the word now being made */
	struct strv *words; /* NULL: everything is one word */
	int keep_escapes, depth;
};

static int put(struct expansion *x, const char *s, size_t len, struct mlr_error *err)
{
	if (x->out.len + len > EXPAND_MAX)
		return mlr_fail(err, E2BIG, "the text expands to more than %zu bytes", EXPAND_MAX);
	text_add(&x->out, s, len);
	return 0;
}

static int put_char(struct expansion *x, char c, struct mlr_error *err)
{
	return put(x, &c, 1, err);
}

/* A blank that is not quoted ends a word. */
static int put_unquoted(struct expansion *x, const char *s, struct mlr_error *err)
{
	int r = 0;

	for (; *s && r == 0; s++) {
		if (!x->words || !strchr(TEXT_BLANKS, *s))
			r = put_char(x, *s, err);
		else if (x->out.len > 0)
			strv_take(x->words, text_take(&x->out));
	}
	return r;
}

/* --- ${...} --------------------------------------------------------------- */

static int until(
	struct expansion *x, char stop, int keep_escapes, char **ret, struct mlr_error *err);

/* A name, a positional or a special parameter (POSIX.1-2017, XCU 2.5), to free(). Empty if there
 * is none. Letters of other alphabets count. */
static char *read_name(struct expansion *x)
{
	const char *s = x->at;
	size_t len = strspn(s, TEXT_DIGITS);

	if (len == 0 && *s && strchr("@*#?-$!", *s))
		len = 1;
	if (len == 0)
		while (isalnum((unsigned char)s[len]) || s[len] == '_' || (s[len] & 0x80))
			len++;
	x->at += len;
	return xstrndup(s, len);
}

static const char *get(const struct expansion *x, const char *name)
{
	return x->e->get ? x->e->get(x->e->ctx, name) : NULL;
}

/* A form of ${name…}, being expanded. */
struct form {
	const char *name, *value; /* value: NULL if unset */
	char operator;
	int colon;
};

static int complain(const struct form *f, const char *word, struct mlr_error *err)
{
	const char *instead =
		f->value ? "is not allowed to be empty" : "is not allowed to be unset";

	return mlr_fail(err, EINVAL, "%.100s: %.200s", f->name, *word ? word : instead);
}

/* Remove the beginning ('#') or the end ('%') that matches. Doubled, the longest. */
static char *without(const struct form *f, const char *pattern)
{
	int longest = *pattern == f->operator;
	size_t len = strlen(f->value);
	ssize_t cut;

	pattern += longest;
	cut = f->operator== '#' ? pattern_begin(pattern, f->value, longest)
				: pattern_end(pattern, f->value, longest);
	if (cut < 0)
		cut = 0;
	return f->operator== '#' ? xstrdup(f->value + cut) : xstrndup(f->value, len - (size_t)cut);
}

static char *replaced(const char *value, const char *pattern, const char *word, int all)
{
	struct text out = { 0 };
	int more = 1;

	while (*value) {
		ssize_t len = more ? pattern_begin(pattern, value, 1) : -1;

		if (len > 0) {
			text_add(&out, word, strlen(word));
			value += len;
			more = all && out.len < EXPAND_MAX;
		} else {
			text_put(&out, *value++);
		}
	}
	return text_take(&out);
}

static int invalid_pattern(const char *pattern, struct mlr_error *err)
{
	return mlr_fail(
		err, EINVAL, "invalid pattern '%.100s': \\ may precede *, ?, \\, / and }", pattern);
}

/* ${name/pattern/word}; the first '/' is read. */
static int replace(struct expansion *x, const struct form *f, char **ret, struct mlr_error *err)
{
	auto_free char *pattern = NULL, *word = NULL;
	int all = *x->at == '/', r;

	x->at += all;
	r = until(x, '/', 1, &pattern, err);
	if (r == 0)
		r = until(x, '}', 1, &word, err);
	TRY(r);
	if (!f->value && (x->e->flags & EXPAND_KEEP_UNSET)) {
		*ret = xasprintf("${%s/%s%s/%s}", f->name, all ? "/" : "", pattern, word);
		return 0;
	}
	if (!pattern_is_valid(pattern))
		return invalid_pattern(pattern, err);
	*ret = replaced(f->value ? f->value : "", pattern, word, all);
	return 0;
}

/* The other forms; the operator is read. */
static int modify(struct expansion *x, struct form *f, char **ret, struct mlr_error *err)
{
	int is_pattern = f->operator== '#' || f->operator== '%';
	int is_set = f->value && (!f->colon || *f->value);
	auto_free char *word = NULL;

	TRY(until(x, '}', is_pattern, &word, err));
	if (!f->value && (x->e->flags & EXPAND_KEEP_UNSET)) {
		*ret = xasprintf("${%s%s%c%s}", f->name, f->colon ? ":" : "", f->operator, word);
	} else if (is_pattern) {
		if (!pattern_is_valid(word))
			return invalid_pattern(word, err);
		*ret = f->value ? without(f, word) : xstrdup("");
	} else if (f->operator== '?' && !is_set) {
		return complain(f, word, err);
	} else if (f->operator== '+') {
		*ret = xstrdup(is_set ? word : "");
	} else {
		*ret = xstrdup(is_set ? f->value : f->operator== '-' ? word : "");
	}
	return 0;
}

/* What follows "${", the '}' included. */
static int braced(struct expansion *x, char **ret, struct mlr_error *err)
{
	auto_free char *name = NULL;
	const char *start = x->at;
	struct form f = { 0 };

	if (*start && strchr("{}:", *start))
		return mlr_fail(err, EINVAL, "invalid substitution '${%.20s'", start);
	f.name = name = read_name(x);
	f.value = get(x, name);
	if (*x->at == '}') {
		x->at++;
		*ret = f.value                            ? xstrdup(f.value)
			: x->e->flags & EXPAND_KEEP_UNSET ? xasprintf("${%s}", name)
							  : xstrdup("");
		return 0;
	}
	f.colon = *x->at == ':';
	x->at += f.colon;
	f.operator= * x->at;
	if (!f.operator)
		return mlr_fail(err, EINVAL, "'${%.100s' has no '}'", start);
	if (!strchr(f.colon ? "-+?" : "-+?#%/", f.operator))
		return mlr_fail(err, EINVAL, "unsupported modifier '%s%c' in '${%.40s'",
			f.colon ? ":" : "", f.operator, start);
	x->at++;
	return f.operator== '/' ? replace(x, &f, ret, err) : modify(x, &f, ret, err);
}

/* A variable; the '$' is read. */
static int variable(struct expansion *x, char **ret, struct mlr_error *err)
{
	auto_free char *name = NULL;
	const char *value;

	if (*x->at == '{') {
		x->at++;
		return braced(x, ret, err);
	}
	name = read_name(x);
	value = get(x, name);
	if (!*name || (!value && (x->e->flags & EXPAND_KEEP_UNSET)))
		*ret = xasprintf("$%s", name);
	else
		*ret = xstrdup(value ? value : "");
	return 0;
}

/* --- quotes and words ------------------------------------------------------ */

static int put_variable(struct expansion *x, int is_quoted, struct mlr_error *err)
{
	auto_free char *value = NULL;

	x->at++;
	TRY(variable(x, &value, err));
	return is_quoted ? put(x, value, strlen(value), err) : put_unquoted(x, value, err);
}

static int open_quote(char quote, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL, "a %c is not closed", quote);
}

static int single_quoted(struct expansion *x, struct mlr_error *err)
{
	int keep = x->e->flags & EXPAND_KEEP_QUOTES ? 1 : 0;
	const char *end = strchr(x->at + 1, '\'');
	const char *from = x->at + 1 - keep;

	if (!end)
		return open_quote('\'', err);
	x->at = end + 1;
	return put(x, from, (size_t)(end + keep - from), err);
}

/* An escape character within double quotes, which precedes itself, '"' or '$', or stands for
 * itself. */
static int quoted_escape(struct expansion *x, struct mlr_error *err)
{
	char escape = *x->at++;
	int r = x->keep_escapes ? put_char(x, escape, err) : 0;

	if (r < 0 || !*x->at)
		return r;
	if (*x->at == '"' || *x->at == '$' || *x->at == escape)
		return put_char(x, *x->at++, err);
	return x->keep_escapes ? 0 : put_char(x, escape, err);
}

static int double_quoted(struct expansion *x, struct mlr_error *err)
{
	int keep = x->e->flags & EXPAND_KEEP_QUOTES ? 1 : 0, r = 0;

	x->at++;
	if (keep)
		r = put_char(x, '"', err);
	while (r == 0 && *x->at != '"') {
		if (!*x->at)
			return open_quote('"', err);
		if (*x->at == '$')
			r = put_variable(x, 1, err);
		else if (*x->at == x->e->escape)
			r = quoted_escape(x, err);
		else
			r = put_char(x, *x->at++, err);
	}
	x->at++;
	return r == 0 && keep ? put_char(x, '"', err) : r;
}

/* Outside of quotes, an escape character takes the next one literally; at the end it vanishes. */
static int escaped(struct expansion *x, struct mlr_error *err)
{
	int r = x->keep_escapes ? put_char(x, *x->at, err) : 0;

	x->at++;
	return r == 0 && *x->at ? put_char(x, *x->at++, err) : r;
}

/* "<<" and blanks after it belong to one word: a here-document's mark. */
static int less_than(struct expansion *x, struct mlr_error *err)
{
	size_t len = x->at[1] == '<' ? 2 + strspn(x->at + 2, " \t\r") : 1;
	const char *from = x->at;

	x->at += len;
	return put(x, from, len, err);
}

static int next(struct expansion *x, struct mlr_error *err)
{
	char one[2] = { *x->at, '\0' };
	int quotes = !(x->e->flags & EXPAND_NO_QUOTES);

	if (*one == '$')
		return put_variable(x, 0, err);
	if (*one == '\'' && quotes)
		return single_quoted(x, err);
	if (*one == '"' && quotes)
		return double_quoted(x, err);
	if (*one == x->e->escape)
		return escaped(x, err);
	if (*one == '<')
		return less_than(x, err);
	x->at++;
	return put_unquoted(x, one, err);
}

/* Expand up to a character, and read it. */
static int until(
	struct expansion *x, char stop, int keep_escapes, char **ret, struct mlr_error *err)
{
	struct expansion inner = { x->e, x->at, { 0 }, NULL, keep_escapes, x->depth + 1 };
	int r = 0;

	if (inner.depth > DEPTH_MAX)
		return mlr_fail(
			err, E2BIG, "more than %d substitutions within one another", DEPTH_MAX);
	while (r == 0 && *inner.at != stop) {
		if (!*inner.at)
			r = mlr_fail(err, EINVAL, "'${' has no '%c'", stop);
		else
			r = next(&inner, err);
	}
	if (r < 0) {
		text_done(&inner.out);
		return r;
	}
	x->at = inner.at + 1;
	*ret = text_take(&inner.out);
	return 0;
}

static int run(struct expansion *x, struct mlr_error *err)
{
	int r = 0;

	while (r == 0 && *x->at)
		r = next(x, err);
	if (r < 0)
		text_done(&x->out);
	return r;
}

int expand_word(const struct expand *e, const char *text, char **ret, struct mlr_error *err)
{
	struct expansion x = { e, text, { 0 }, NULL, !!(e->flags & EXPAND_KEEP_ESCAPES), 0 };
	int r = run(&x, err);

	if (r < 0)
		return mlr_wrap(err, "'%.200s'", text);
	*ret = text_take(&x.out);
	return 0;
}

int expand_words(const struct expand *e, const char *text, struct strv *ret, struct mlr_error *err)
{
	struct expansion x = { e, text, { 0 }, ret, !!(e->flags & EXPAND_KEEP_ESCAPES), 0 };
	int r = run(&x, err);

	if (r < 0)
		return mlr_wrap(err, "'%.200s'", text);
	if (x.out.len > 0)
		strv_take(ret, text_take(&x.out));
	text_done(&x.out);
	return 0;
}
