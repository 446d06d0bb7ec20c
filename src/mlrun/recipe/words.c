#include "recipe/words.h"

#include "base/base.h"
#include "recipe/text.h"

#include <jansson.h>

void words_split(const char *text, struct strv *ret)
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

void words_quoted(const char *text, char escape, struct strv *ret)
{
	for (text += text_blank(text); *text; text += text_blank(text)) {
		struct text out = TEXT_INIT;

		text = word(text, escape, 1, &out);
		if (out.len > 0)
			strv_take(ret, text_take(&out));
		text_done(&out);
	}
}

const char *words_flags(const char *text, char escape, struct strv *ret)
{
	for (;;) {
		struct text out = TEXT_INIT;
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

int words_json(const char *text, struct strv *ret)
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
