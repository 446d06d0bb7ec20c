#include "registry/challenge.h"

#include "base/base.h"

#define ALNUM   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define TOKEN   ALNUM "!#$%&'*+-.^_`|~" /* RFC 9110, 5.6.2 */
#define TOKEN68 ALNUM "-._~+/"          /* RFC 9110, 11.2 */
#define SPACE   " \t"

static const char *skip(const char *s, const char *set)
{
	return s + strspn(s, set);
}

/* Read a quoted string without its quotes and backslashes. Returns the rest of the text, or
 * NULL. */
static const char *read_quoted(const char *s, char **ret)
{
	auto_free char *out = xmalloc(strlen(s));
	size_t n = 0;

	for (s++; *s != '"'; s++) {
		if (*s == '\\')
			s++;
		if (*s == '\0' || ((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return NULL;
		out[n++] = *s;
	}
	out[n] = '\0';
	*ret = take_ptr(&out);
	return s + 1;
}

static const char *read_value(const char *s, char **ret)
{
	size_t n;

	if (*s == '"')
		return read_quoted(s, ret);
	n = strspn(s, TOKEN ":/?="); /* some servers send unquoted URLs, against the grammar */
	if (n == 0)
		return NULL;
	*ret = xstrndup(s, n);
	return s + n;
}

/* Skip the scheme's token68, if there is one, as in "Negotiate YWJj==". */
static const char *skip_token68(const char *s)
{
	const char *end = skip(skip(s, TOKEN68), "=");

	return end > s && (*skip(end, SPACE) == ',' || *skip(end, SPACE) == '\0') ? end : s;
}

static enum challenge_scheme scheme_of(const char *s, size_t n)
{
	if (n == 6 && strncasecmp(s, "Bearer", n) == 0)
		return CHALLENGE_BEARER;
	if (n == 5 && strncasecmp(s, "Basic", n) == 0)
		return CHALLENGE_BASIC;
	return CHALLENGE_OTHER;
}

static char **slot_of(struct challenge *c, const char *s, size_t n)
{
	if (n == 5 && strncasecmp(s, "realm", n) == 0)
		return &c->realm;
	if (n == 7 && strncasecmp(s, "service", n) == 0)
		return &c->service;
	if (n == 5 && strncasecmp(s, "scope", n) == 0)
		return &c->scope;
	return NULL;
}

/* Read one "name=value"; the first of a name counts. Returns the rest of the text, or NULL. */
static const char *read_param(const char *name, size_t n, const char *equals, struct challenge *c)
{
	auto_free char *value = NULL;
	char **slot = slot_of(c, name, n);
	const char *end = read_value(skip(equals + 1, SPACE), &value);

	if (end && slot && !*slot)
		*slot = take_ptr(&value);
	return end;
}

/* Keep the better of two challenges in best; c ends empty. */
static void prefer(struct challenge *best, struct challenge *c)
{
	if (c->scheme > best->scheme && (c->scheme != CHALLENGE_BEARER || c->realm)) {
		challenge_done(best);
		*best = *c;
		*c = (struct challenge)CHALLENGE_INIT;
	}
	challenge_done(c);
}

void challenge_done(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct challenge)CHALLENGE_INIT;
}

int challenge_parse(const char *value, struct challenge *ret, struct mlr_error *err)
{
	auto_call(challenge_done) struct challenge best = CHALLENGE_INIT, c = CHALLENGE_INIT;
	const char *s = value;
	int in_challenge = 0;

	if (strlen(value) > CHALLENGE_MAX)
		return mlr_fail(
			err, EPROTO, "a WWW-Authenticate header of %zu bytes", strlen(value));
	while (*(s = skip(s, SPACE ",")) != '\0') {
		size_t n = strspn(s, TOKEN);
		const char *after = skip(s + n, SPACE);

		if (n > 0 && *after == '=' && in_challenge) {
			s = read_param(s, n, after, &c);
		} else if (n > 0 && *after != '=') {
			prefer(&best, &c);
			c.scheme = scheme_of(s, n);
			in_challenge = 1;
			s = skip_token68(after);
			continue;
		} else {
			s = NULL;
		}
		if (!s || (*skip(s, SPACE) != ',' && *skip(s, SPACE) != '\0'))
			return mlr_fail(
				err, EPROTO, "a malformed WWW-Authenticate header '%.200s'", value);
	}
	prefer(&best, &c);
	*ret = best;
	best = (struct challenge)CHALLENGE_INIT;
	return 0;
}
