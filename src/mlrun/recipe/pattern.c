#include "recipe/pattern.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <string.h>

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

ssize_t pattern_end(const char *pattern, const char *s, int longest)
{
	size_t n = strlen(s);
	ssize_t found = -1;

	for (size_t from = 0; from <= n; from += from < n ? character(s + from) : 1) {
		size_t left = n - from;

		if (pattern_begin(pattern, s + from, 1) != (ssize_t)left)
			continue;
		found = (ssize_t)left;
		if (longest)
			break;
	}
	return found;
}
