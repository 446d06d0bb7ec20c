#include "oci/json.h"

#include <math.h>

#define DIGITS "0123456789"

/* RFC 8259, 6. */
static int is_number(const char *s)
{
	size_t n;

	s += *s == '-';
	n = *s == '0' ? 1 : strspn(s, DIGITS);
	s += n;
	if (n > 0 && *s == '.') {
		n = strspn(++s, DIGITS);
		s += n;
	}
	if (n > 0 && (*s == 'e' || *s == 'E')) {
		s++;
		s += *s == '+' || *s == '-';
		n = strspn(s, DIGITS);
		s += n;
	}
	return n > 0 && !*s;
}

/* Is it a number that fits neither a long long nor a double, which jansson needs? */
static int overflows(const char *word)
{
	if (!is_number(word))
		return 0;
	if (strpbrk(word, ".eE"))
		return isinf(strtod(word, NULL));
	errno = 0;
	strtoll(word, NULL, 10);
	return errno == ERANGE;
}

/*
 * Copy a JSON text of *ret_len bytes, to free(), with numbers that are too large turned into
 * strings. Readers that ignore these members are not disturbed; a reader that expects a number
 * reports that it is none.
 */
static char *quote_overflows(const char *text, size_t len, size_t *ret_len)
{
	char *out = xmalloc(len + len / 2 + 2),
	     *to = out; /* the shortest too large number is 1e309 */
	int in_string = 0;

	for (const char *s = text, *end = text + len; s < end;) {
		size_t n = 0;

		while (!in_string && s + n < end && s[n] && strchr("+-.eE" DIGITS, s[n]))
			n++;
		if (n > 0) {
			auto_free char *word = xstrndup(s, n);

			to += sprintf(to, overflows(word) ? "\"%s\"" : "%s", word);
			s += n;
			continue;
		}
		if (in_string && *s == '\\' && s + 1 < end)
			*to++ = *s++;
		else if (*s == '"')
			in_string = !in_string;
		*to++ = *s++;
	}
	*ret_len = (size_t)(to - out);
	return out;
}

static json_t *parse(const char *text, size_t len, json_error_t *why)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, why);
	auto_free char *quoted = NULL;

	if (root || json_error_code(why) != json_error_numeric_overflow)
		return root;
	quoted = quote_overflows(text, len, &len);
	return json_loadb(quoted, len, JSON_REJECT_DUPLICATES, why);
}

/* Is it HTML or XML? */
static int is_page(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && isspace((unsigned char)text[i]))
		i++;
	return i < len && text[i] == '<';
}

static int load(const char *text, size_t len, size_t max, json_type type, json_t **ret,
	struct mlr_error *err)
{
	json_error_t why;
	json_t *root;

	if (len > max)
		return mlr_fail(
			err, EFBIG, "a JSON document of %zu bytes; the limit is %zu", len, max);

	root = parse(text, len, &why);
	if (!root && is_page(text, len)) {
		mlr_fail(err, EPROTO, "not JSON, but a page of HTML or XML");
		return mlr_hint(
			err, "a web server, or a proxy with a page of its own, answers there");
	}
	if (!root)
		return mlr_fail(err, EPROTO, "not JSON: line %d: %s", why.line, why.text);
	if (json_typeof(root) != type) {
		json_decref(root);
		return mlr_fail(err, EPROTO, "a JSON document that is not an %s",
			type == JSON_ARRAY ? "array" : "object");
	}
	*ret = root;
	return 0;
}

int oci_json_load(const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err)
{
	return load(text, len, max, JSON_OBJECT, ret, err);
}

int oci_json_load_array(
	const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err)
{
	return load(text, len, max, JSON_ARRAY, ret, err);
}

int oci_json_read(const char *text, size_t len, size_t max, const struct record_row *rows, void *to,
	struct mlr_error *err)
{
	const struct record_reader r = { .manner = RECORD_PRINTABLE, .err = err };
	json_auto_t *root = NULL;

	TRY(oci_json_load(text, len, max, &root, err));
	return record_read(&r, rows, root, to);
}
