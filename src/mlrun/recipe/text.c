#include "recipe/text.h"

#include <jansson.h>

void text_done(struct text *t)
{
	free(t->s);
	*t = (struct text){ 0 };
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

	*t = (struct text){ 0 };
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

void text_words(const char *text, struct strv *ret)
{
	for (text += text_blank(text); *text; text += text_blank(text)) {
		size_t len = strcspn(text, TEXT_BLANKS);

		strv_addf(ret, "%.*s", (int)len, text);
		text += len;
	}
}

/* Read a word up to a blank that is neither quoted nor escaped. keep: with its quotes and escape
 * characters. In single quotes nothing is escaped then. */
static const char *word(const char *s, char escape, int keep, struct text *out)
{
	char quote = '\0';

	for (; *s && (quote || !strchr(TEXT_BLANKS, *s)); s++) {
		int is_quote = quote ? *s == quote : *s == '"' || *s == '\'';

		if (is_quote)
			quote = quote ? '\0' : *s;
		if (*s == escape && !(keep && quote == '\'')) {
			if (!s[1])
				continue;
			if (keep)
				text_put(out, *s);
			text_put(out, *++s);
		} else if (keep || !is_quote) {
			text_put(out, *s);
		}
	}
	return s;
}

void text_quoted(const char *text, char escape, struct strv *ret)
{
	for (text += text_blank(text); *text; text += text_blank(text)) {
		struct text out = { 0 };

		text = word(text, escape, 1, &out);
		if (out.len > 0)
			strv_take(ret, text_take(&out));
		text_done(&out);
	}
}

const char *text_flags(const char *text, char escape, struct strv *ret)
{
	for (;;) {
		struct text out = { 0 };
		auto_free char *flag = NULL;

		text += text_blank(text);
		if (strncmp(text, "--", 2) != 0)
			return text;
		text = word(text, escape, 0, &out);
		flag = text_take(&out);
		if (strcmp(flag, "--") == 0)
			return text + text_blank(text);
		strv_add(ret, flag);
	}
}

int text_json(const char *text, struct strv *ret)
{
	json_auto_t *list = text[text_blank(text)] == '[' ? json_loads(text, 0, NULL) : NULL;
	json_t *v;
	size_t i;

	if (!json_is_array(list))
		return 0;
	json_array_foreach(list, i, v)
		if (!json_is_string(v))
			return -EINVAL;
	json_array_foreach(list, i, v)
		strv_add(ret, json_string_value(v));
	return 1;
}
