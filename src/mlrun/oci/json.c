#include "oci/json.h"

#include "base/base.h"

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

static int get(json_t *obj, const char *key, json_type type, const char *want, json_t **ret,
	struct mlr_error *err)
{
	json_t *v = json_object_get(obj, key);

	if (v && !json_is_null(v) && json_typeof(v) != type)
		return mlr_fail(err, EPROTO, "\"%s\" is not %s", key, want);
	*ret = json_is_null(v) ? NULL : v;
	return 0;
}

int oci_json_text(json_t *obj, const char *key, const char **ret, struct mlr_error *err)
{
	json_t *v = NULL;

	TRY(get(obj, key, JSON_STRING, "a string", &v, err));
	for (const char *s = v ? json_string_value(v) : ""; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return mlr_fail(err, EPROTO, "\"%s\" contains control characters", key);
	*ret = json_string_value(v);
	return 0;
}

int oci_json_object(json_t *obj, const char *key, json_t **ret, struct mlr_error *err)
{
	return get(obj, key, JSON_OBJECT, "an object", ret, err);
}

int oci_json_array(json_t *obj, const char *key, json_t **ret, struct mlr_error *err)
{
	return get(obj, key, JSON_ARRAY, "an array", ret, err);
}

int oci_json_size(json_t *obj, const char *key, uint64_t *ret, struct mlr_error *err)
{
	json_t *v = NULL;

	TRY(get(obj, key, JSON_INTEGER, "a whole number", &v, err));
	if (!v)
		return mlr_fail(err, EPROTO, "\"%s\" is missing", key);
	if (json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > OCI_SIZE_MAX)
		return mlr_fail(err, EPROTO, "\"%s\" is %lld, which no size is", key,
			(long long)json_integer_value(v));
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int oci_json_texts(json_t *obj, const char *key, struct strv *ret, struct mlr_error *err)
{
	json_t *list, *v;
	size_t i;

	TRY(oci_json_array(obj, key, &list, err));
	json_array_foreach(list, i, v) {
		if (!json_is_string(v))
			return mlr_fail(err, EPROTO, "\"%s\": entry %zu is not a string", key, i);
		strv_add(ret, json_string_value(v));
	}
	return 0;
}
