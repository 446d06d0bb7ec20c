#include "recipe/pattern.h"

#include "base/base.h"

int pattern_is_valid(const char *pattern)
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

ssize_t pattern_begin(const char *pattern, const char *s, int longest)
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

ssize_t pattern_end(const char *pattern, const char *s, int longest)
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
