#include "recipe/text.h"

#include "base/base.h"

void text_done(struct text *t)
{
	free(t->s);
	*t = (struct text)TEXT_INIT;
}

void text_add(struct text *t, const char *s, size_t len)
{
	while (t->len + len + 1 > t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->s = xreallocarray(t->s, t->room, 1);
	}
	memcpy(t->s + t->len, s, len);
	t->len += len;
	t->s[t->len] = '\0';
}

void text_put(struct text *t, char c)
{
	text_add(t, &c, 1);
}

char *text_take(struct text *t)
{
	char *s = t->s ? t->s : xstrdup("");

	*t = (struct text)TEXT_INIT;
	return s;
}

size_t text_blank(const char *s)
{
	return strspn(s, TEXT_BLANKS);
}

void text_chop(char *s)
{
	size_t len = strlen(s);

	while (len > 0 && strchr(TEXT_BLANKS, s[len - 1]))
		len--;
	s[len] = '\0';
}
