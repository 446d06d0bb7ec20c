/* Writes values in YAML. */
#include "compose/parts.h"

#define TEXT_MAX (16 << 20) /* bytes; aliases of aliases are many values */
#define LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Does every reader of YAML take the text for itself, without quotes? */
static int is_plain(const char *s)
{
	static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "null", "y",
		"n" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(s, words[i]) == 0)
			return 0;
	return *s && strchr(LETTERS "/", *s) && !s[strspn(s, LETTERS "0123456789_./-")];
}

/* A text in double quotes is the same in JSON and YAML. Of a value, a dollar sign begins a
 * variable, and two are one. */
static void print_text(FILE *out, const char *s, int is_key)
{
	json_auto_t *v = json_string_nocheck(s);
	auto_free char *quoted =
		is_plain(s) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

	for (const char *c = quoted ? quoted : s; *c; c++)
		fprintf(out, "%s%c", *c == '$' && !is_key ? "$" : "", *c);
}

/* What follows "key:" or "-". first: the mapping's first key goes on in this line. */
static void print(FILE *out, const json_t *v, int depth, int first)
{
	const char *key;
	json_t *item;
	size_t i;

	if (ftell(out) > TEXT_MAX)
		return;
	if (json_is_string(v)) {
		putc(' ', out);
		print_text(out, json_string_value(v), 0);
	}
	if (json_is_null(v))
		fputs(" null", out);
	if ((json_is_object(v) && json_object_size(v) == 0) ||
		(json_is_array(v) && json_array_size(v) == 0))
		fputs(json_is_object(v) ? " {}" : " []", out);
	json_object_foreach((json_t *)v, key, item) {
		if (first)
			fputs(depth ? " " : "", out);
		else
			fprintf(out, "\n%*s", 2 * depth, "");
		first = 0;
		print_text(out, key, 1);
		putc(':', out);
		print(out, item, depth + 1, 0);
	}
	json_array_foreach((json_t *)v, i, item) {
		fprintf(out, "\n%*s-", 2 * depth, "");
		print(out, item, depth + 1, 1);
	}
}

char *compose_print(const json_t *v)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	print(out, v, 0, 1);
	putc('\n', out);
	fclose(out);
	if (size > TEXT_MAX)
		free(take_ptr(&text));
	return text;
}
