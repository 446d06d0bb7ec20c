#include "base/escape.h"

#include "base/base.h"

size_t escape_next(const char *s, char out[ESCAPE_SIZE])
{
	unsigned char c = (unsigned char)s[0], next = c ? (unsigned char)s[1] : 0;

	if (c < 0x20 || c == 0x7f) {
		snprintf(out, ESCAPE_SIZE, "\\x%02x", c);
		return 1;
	}
	if (c == 0xc2 && next >= 0x80 && next <= 0x9f) { /* C1 in UTF-8 */
		snprintf(out, ESCAPE_SIZE, "\\u%04x", next);
		return 2;
	}
	out[0] = (char)c;
	out[1] = '\0';
	return 1;
}

void escape_print(FILE *out, const char *s)
{
	char shown[ESCAPE_SIZE];

	for (; *s; fputs(shown, out))
		s += escape_next(s, shown);
}

void escape_text(const char *s, char *out, size_t room)
{
	size_t n = 0;

	while (*s && n + ESCAPE_SIZE <= room) {
		s += escape_next(s, out + n);
		n += strlen(out + n);
	}
	out[n] = '\0';
}

char *escape_for_sh(const char *word)
{
	char *out = xmalloc(5 * strlen(word) + 3), *to = stpcpy(out, "'");

	for (; *word; word++)
		if (*word == '\'')
			to = stpcpy(to, "'\"'\"'"); /* SingularityCE misreads '\'' */
		else
			*to++ = *word;
	strcpy(to, "'");
	return out;
}

char *escape_for_reader(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789@%+=:,./_-";

	return *word && !word[strspn(word, plain)] ? xstrdup(word) : escape_for_sh(word);
}

int escape_is_sh_name(const char *name, size_t len)
{
	return len > 0 && !isdigit((unsigned char)*name) &&
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") >=
		len;
}
